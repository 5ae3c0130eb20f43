//! What stands below every summary, whatever a model wrote: tool failures, files, and the request under way.

use tidegate_protocol::{Compaction, FileTrail, Message, Role};

use super::Job;
use super::cut::Cut;
use super::serialise::unended;
use super::trail::trail;
use super::words::{CLOSING, clip, clip_fenced, one_line};
use crate::context::Line;

/// Where our part begins. The next summary is made from what stands before it.
const OURS: &str = "\n\n# Noted beside the summary\n";
/// The last section: the words of a person may hold anything.
const REQUEST: &str = "## The request under way, as it was written\n";
/// Characters of that request.
const REQUEST_CHARACTERS: usize = 2_000;
/// Failures that are told, and characters of each.
const FAILURES: usize = 8;
const FAILURE: usize = 240;

/// The facts beside a summary.
#[derive(Debug, Default)]
pub(super) struct Notes {
    failures: Vec<String>,
    more_failures: usize,
    pub(super) files: FileTrail,
    request: Option<String>,
}

impl Notes {
    pub(super) fn new(job: &Job<'_>, cut: &Cut) -> Self {
        let old = job.lines.get(..cut.first_kept).unwrap_or_default();
        let failures: Vec<String> = old.iter().filter_map(|line| failure(&line.message)).collect();
        let more_failures = failures.len().saturating_sub(FAILURES);
        let none = FileTrail::default();
        Self {
            failures: failures.into_iter().skip(more_failures).collect(),
            more_failures,
            files: trail(old, job.before.map_or(&none, |before| &before.files)),
            request: request(job, cut),
        }
    }

    /// The summary with the notes below it, at most `most` characters of both.
    pub(super) fn below(&self, body: &str, most: usize) -> String {
        let body = body.trim().replace(OURS.trim(), "");
        let notes = self.text(most / 2);
        let body = clip(&body, most.saturating_sub(notes.chars().count()));
        unended(&format!("{body}{notes}"))
    }

    fn text(&self, most: usize) -> String {
        let mut page = Page { text: String::new(), left: most.saturating_sub(OURS.chars().count()) };
        // A request takes half at most, and is written last.
        let request = self.request.as_ref().and_then(|request| {
            let most =
                (page.left / 2).min(REQUEST_CHARACTERS).checked_sub(REQUEST.chars().count() + CLOSING)?;
            Some(format!("{REQUEST}{}", clip_fenced(request, most)))
        });
        page.left = page.left.saturating_sub(request.as_ref().map_or(0, |request| request.chars().count()));
        page.list("## Tool failures", &self.failures, self.more_failures);
        page.list("## Files changed", &self.files.modified, 0);
        page.list("## Files read", &self.files.read, 0);
        page.text.extend(request);
        if page.text.is_empty() { String::new() } else { format!("{OURS}{}", page.text.trim_end()) }
    }
}

/// A text that grows by whole lines as long as there is room.
struct Page {
    text: String,
    left: usize,
}

impl Page {
    fn list(&mut self, heading: &str, items: &[String], mut more: usize) {
        // The heading, one item and the line that counts the rest, or nothing.
        let reserved = heading.chars().count() + 32;
        if items.is_empty() || self.left < reserved {
            return;
        }
        let mut room = self.left - reserved;
        let mut section = format!("{heading}\n");
        for item in items {
            let size = item.chars().count() + 3;
            if size > room {
                more += 1;
                continue;
            }
            room -= size;
            section.extend(["- ", item.as_str(), "\n"]);
        }
        if more > 0 {
            section.extend([format!("- and {more} more\n")]);
        }
        self.left = self.left.saturating_sub(section.chars().count());
        self.text.push_str(&section);
    }
}

/// `exec (exitCode=2): no such file`.
fn failure(message: &Message) -> Option<String> {
    let Message::ToolResult { tool_name, is_error: true, details, .. } = message else { return None };
    let detail = |name: &str| {
        let value = details.as_ref()?.get(name)?;
        value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))
    };
    let known: Vec<String> = ["status", "exitCode"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", one_line(&detail(name)?, 40))))
        .collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    let text = format!("{}{known}: {}", one_line(tool_name, 60), one_line(&message.text(), FAILURE));
    Some(clip(&text, FAILURE))
}

/// What the turn that is cut in two was asked for. It may have been cut before.
fn request(job: &Job<'_>, cut: &Cut) -> Option<String> {
    if let Some(start) = cut.turn_start {
        return job.lines.get(start).map(|line| line.message.text()).filter(|text| !text.trim().is_empty());
    }
    let whole = job.lines.get(cut.first_kept).is_some_and(|line: &Line| line.message.role() == Role::User);
    if whole { None } else { job.before.and_then(kept_request) }
}

fn kept_request(before: &Compaction) -> Option<String> {
    let (_, notes) = before.summary.split_once(OURS)?;
    let (_, request) = notes.split_once(REQUEST)?;
    Some(request.to_owned())
}

/// A summary without our notes.
pub(super) fn body_of(summary: &str) -> &str {
    summary.split_once(OURS).map_or(summary, |(body, _)| body)
}
