//! `grep`: lines of files by a pattern.

use std::fmt::Write as _;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;

use super::find::glob;
use super::ls::here;
use super::read::{is_binary, with_notes};
use super::tree::{self, Next};
use super::{FileWork, Held, READ_CAP, Stop, looking_through};
use crate::root::{End, Kind, PathError, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};
use crate::truncate::{self, MAX_BYTES};

/// How much of a line is shown.
const LINE_CHARS: usize = 500;
/// How large a compiled pattern may become.
const REGEX_BYTES: usize = 2 * 1024 * 1024;
const MAX_CONTEXT: usize = 50;

pub(super) struct Grep;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// A regular expression, or the text itself with literal.
    pub(super) pattern: String,
    /// The file or folder.
    #[serde(default = "here")]
    pub(super) path: String,
    /// Only files that fit this glob, such as *.rs.
    #[serde(default)]
    pub(super) glob: Option<String>,
    #[serde(default)]
    pub(super) ignore_case: bool,
    /// The pattern is plain text.
    #[serde(default)]
    pub(super) literal: bool,
    /// How many lines around a match.
    #[serde(default)]
    #[schemars(range(max = 50))]
    pub(super) context: usize,
    /// How many matches.
    #[serde(default = "limit")]
    #[schemars(range(min = 1))]
    pub(super) limit: usize,
}

fn limit() -> usize {
    100
}

impl FileWork for Grep {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Search files for a regular expression, line by line. Binary files and what .gitignore names \
                           are left out.";
        ToolSpec::of::<Args>("grep", description)
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        regex(args)?;
        args.glob.as_deref().map(glob).transpose()?;
        looking_through(root, &args.path)
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let start = found.name()?;
        let glob = args.glob.as_deref().map(glob).transpose()?;
        let mut search = Search::new(args)?;
        let all = if let End::File(_) = found.end {
            let bytes = found.read(READ_CAP)?.bytes;
            if is_binary(&bytes) {
                return Err(ToolFailure::execution(format!("{start} is a binary file, not text")));
            }
            search.file(&start, &bytes);
            true
        } else {
            tree::look(root, &found, stop, &mut |visit| {
                let below = visit.path.strip_prefix(&start).unwrap_or(visit.path);
                let fits = glob.as_ref().is_none_or(|glob| glob.matched(below, false).is_whitelist());
                if visit.entry.kind != Kind::File || !fits || stop.check().is_err() {
                    return Next::More;
                }
                match visit.folder.read(root, &visit.entry.name, READ_CAP) {
                    Ok(content) => search.file(&shown(visit.path), &content.bytes),
                    Err(PathError::TooLarge { .. }) => {
                        search.skipped += 1;
                        Next::More
                    }
                    Err(_) => Next::More,
                }
            })?
        };
        Ok(search.output(&start, all))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn regex(args: &Args) -> Result<Regex, ToolFailure> {
    let pattern = if args.literal { regex::escape(&args.pattern) } else { args.pattern.clone() };
    RegexBuilder::new(&pattern)
        .case_insensitive(args.ignore_case)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .build()
        .map_err(|error| ToolFailure::arguments(format!("the pattern is not a regular expression: {error}")))
}

struct Search {
    regex: Regex,
    context: usize,
    limit: usize,
    text: String,
    matches: usize,
    /// There is more than is shown.
    more: bool,
    cut_lines: bool,
    /// Files too large to look into.
    skipped: usize,
}

impl Search {
    fn new(args: &Args) -> Result<Self, ToolFailure> {
        Ok(Self {
            regex: regex(args)?,
            context: args.context.min(MAX_CONTEXT),
            limit: args.limit,
            text: String::new(),
            matches: 0,
            more: false,
            cut_lines: false,
            skipped: 0,
        })
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> Next {
        if is_binary(bytes) {
            return Next::More;
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let lines: Vec<_> =
            bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        let matching = lines.iter().enumerate().filter(|(_, line)| self.regex.is_match(line));
        // One more than is shown says that there are more.
        let mut hits: Vec<_> =
            matching.map(|(index, _)| index).take(self.limit.saturating_add(1) - self.matches).collect();
        self.more = hits.len() > self.limit - self.matches;
        hits.truncate(self.limit - self.matches);
        // The first line that was not shown yet.
        let mut next = 0;
        for hit in &hits {
            self.matches += 1;
            let first = hit.saturating_sub(self.context).max(next);
            let last = hit.saturating_add(self.context).min(lines.len() - 1);
            for (index, line) in lines.iter().enumerate().take(last + 1).skip(first) {
                let mark = if hits.binary_search(&index).is_ok() { ':' } else { '-' };
                self.line(path, index, line, mark);
            }
            next = next.max(last + 1);
            if self.text.len() > MAX_BYTES {
                self.more = true;
                break;
            }
        }
        if self.more { Next::Enough } else { Next::More }
    }

    fn line(&mut self, path: &str, index: usize, line: &[u8], mark: char) {
        let (line, cut) = truncate::line(&String::from_utf8_lossy(line), LINE_CHARS);
        self.cut_lines |= cut;
        let _ = writeln!(self.text, "{path}{mark}{}{mark} {line}", index + 1);
    }

    fn output(self, start: &str, all: bool) -> Output {
        let cut = truncate::head(&self.text, usize::MAX, MAX_BYTES);
        let mut notes = Vec::new();
        if self.matches == 0 {
            notes.push("Nothing matches.".to_owned());
        }
        if self.more {
            notes.push(format!(
                "Only the first {} matches are shown: narrow the pattern or the path.",
                self.matches
            ));
        }
        if self.cut_lines {
            notes.push(format!("Lines longer than {LINE_CHARS} characters are cut: use read to see them."));
        }
        if self.skipped > 0 {
            notes.push(format!("{} files are too large to search.", self.skipped));
        }
        if !all && !self.more {
            notes.push("Not everything could be looked at.".to_owned());
        }
        let truncated = self.more || self.cut_lines || self.skipped > 0 || !all || cut.by.is_some();
        Output { truncated, ..Output::text(with_notes(cut.content, &notes)) }
            .with_data(json!({ "path": start, "matches": self.matches }))
    }
}
