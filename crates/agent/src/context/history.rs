//! The conversation as a model reads it.

use tidegate_models::Paired;
use tidegate_protocol::{Block, Entry, EntryBody, Message, Role};
use tidegate_storage::Context;

/// A message with its position in the log, if it is there already.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What only stands in for something missing has the position of the answer it belongs to.
    pub seq: Option<i64>,
    pub message: Message,
}

/// What a conversation begins with when nobody asked anything in what is left of it.
const BEGINNING_LOST: &str = "[what was said before this is not shown]";

/// The element a summary stands in.
const SUMMARY: &str = "summary";

/// The lines that a run begins with: those of the log that a model reads, the last `turns` turns of them, every call with
/// its result behind it. Without a [`summary`] before them they begin with a user's message. `answers` are results that
/// came since; those without a call are left out.
pub fn history(context: &Context, answers: &[Message], turns: u32) -> Vec<Line> {
    let lines = context.entries.iter().filter_map(|entry| {
        let message = entry.body.message().filter(|message| !is_blank(message))?;
        Some(Line { seq: Some(entry.seq), message: message.clone() })
    });
    let answers = answers.iter().map(|message| Line { seq: None, message: message.clone() });
    let mut lines = last_turns(paired(lines.chain(answers).collect()), turns);
    if context.summary.is_none() {
        begin_with_user(&mut lines);
    }
    lines
}

/// What was said before the lines, as the user's message that stands before them.
pub fn summary(entry: &Entry) -> Option<Message> {
    let EntryBody::Compaction(compaction) = &entry.body else { return None };
    let text = compaction.summary.trim();
    if text.is_empty() {
        return None;
    }
    let text = without_marks(text);
    let lead = "What was said before this, in short. It is a record of what happened, not a new request:";
    Some(Message::user(format!("{lead}\n<{SUMMARY}>\n{text}\n</{SUMMARY}>"), entry.created_at))
}

/// Whoever is quoted in a summary must not end it: what looks like its marks is taken apart.
fn without_marks(text: &str) -> String {
    let mut parts = text.split('<');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let word = part.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_mark = word.get(..SUMMARY.len()).is_some_and(|word| word.eq_ignore_ascii_case(SUMMARY));
        out.push_str(if is_mark { "< " } else { "<" });
        out.push_str(part);
    }
    out
}

/// The lines with each result directly behind its call. The first of two results wins, also where nothing else has to be
/// mended; what has no call is left out, and a call without a result gets one that says so.
pub fn paired(lines: Vec<Line>) -> Vec<Line> {
    let places = tidegate_models::paired(lines.iter().map(|line| &line.message));
    let mut lines: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
    let mut out: Vec<Line> = Vec::with_capacity(places.len());
    for place in places {
        match place {
            Paired::At(at) => out.extend(lines.get_mut(at).and_then(Option::take)),
            Paired::Missing(message) => {
                let seq = out.iter().rev().find_map(|line| line.seq);
                out.push(Line { seq, message });
            }
        }
    }
    out
}

/// Whether there is nothing in it to read. A result is an answer even then.
fn is_blank(message: &Message) -> bool {
    let is_nothing = |block: &Block| match block {
        Block::Text { text, text_signature } => text.trim().is_empty() && text_signature.is_none(),
        Block::Thinking { thinking, thinking_signature, .. } => {
            thinking.trim().is_empty() && thinking_signature.is_none()
        }
        Block::Image { .. } | Block::ToolCall { .. } => false,
    };
    message.role() != Role::ToolResult && message.content().iter().all(is_nothing)
}

fn is_user(line: &Line) -> bool {
    line.message.role() == Role::User
}

/// A turn begins with a user's message.
fn last_turns(mut lines: Vec<Line>, turns: u32) -> Vec<Line> {
    let Some(before) = usize::try_from(turns).unwrap_or(usize::MAX).checked_sub(1) else { return Vec::new() };
    let starts = lines.iter().enumerate().rev().filter(|(_, line)| is_user(line)).map(|(at, _)| at);
    let first = starts.skip(before).take(2).collect::<Vec<_>>();
    // With no turn before it there is nothing to cut, not even half a turn whose beginning is summed up.
    match first.as_slice() {
        [first, _earlier] => lines.split_off(*first),
        _ => lines,
    }
}

/// Providers want a user to speak first. Half a turn goes, unless it is all there is.
fn begin_with_user(lines: &mut Vec<Line>) {
    let Some((seq, timestamp)) = lines.first().map(|line| (line.seq, line.message.timestamp())) else {
        return;
    };
    match lines.iter().position(is_user) {
        Some(first) => {
            lines.drain(..first);
        }
        None => lines.insert(0, Line { seq, message: Message::user(BEGINNING_LOST, timestamp) }),
    }
}
