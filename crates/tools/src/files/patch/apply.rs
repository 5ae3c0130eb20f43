//! Applying the pieces of a patch to a text. Pure.

use std::borrow::Cow;

use super::parse::{Chunk, Line};
use crate::files::fold;

/// The text after all pieces. Pieces come in the order of the file.
pub(super) fn apply(text: &str, chunks: &[Chunk]) -> Result<String, String> {
    let mut file = FileLines::of(text);
    let mut from = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let lines = match place(&file, chunk, &chunk.lines, from) {
            Some(start) => Some((start, chunk.lines.as_slice())),
            // An empty line at the end may only separate the piece from what follows in the patch.
            None => match chunk.lines.split_last() {
                Some((Line::Keep(last), rest)) if last.is_empty() => {
                    place(&file, chunk, rest, from).map(|start| (start, rest))
                }
                _ => None,
            },
        };
        let end = lines.and_then(|(start, lines)| file.change(lines, start));
        from = end.ok_or_else(|| not_found(index, chunk))?;
    }
    Ok(file.text())
}

fn not_found(index: usize, chunk: &Chunk) -> String {
    let expected = expected(&chunk.lines);
    let lines = if expected.is_empty() { chunk.after.join("\n") } else { expected.join("\n") };
    format!(
        "piece {} does not fit: these lines are not in the file after the piece before it:\n{lines}",
        index + 1
    )
}

/// The line where a piece begins.
fn place(file: &FileLines<'_>, chunk: &Chunk, lines: &[Line], from: usize) -> Option<usize> {
    let mut from = from;
    for after in &chunk.after {
        from = file.seek(&[after], from, false)? + 1;
    }
    let expected = expected(lines);
    if expected.is_empty() {
        // Nothing but new lines: after the line that was named, or at the end.
        return Some(if chunk.after.is_empty() || chunk.at_end { file.lines.len() } else { from });
    }
    file.seek(&expected, from, chunk.at_end)
}

/// The lines that a piece expects to find.
fn expected(lines: &[Line]) -> Vec<&str> {
    let found = lines.iter().filter_map(|line| match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
        Line::Add(_) => None,
    });
    found.collect()
}

struct FileLines<'a> {
    mark: &'a str,
    lines: Vec<FileLine<'a>>,
    /// How new lines end.
    end: &'static str,
    /// The last line ends like the others.
    ended: bool,
}

struct FileLine<'a> {
    text: Cow<'a, str>,
    end: &'static str,
}

impl<'a> FileLines<'a> {
    fn of(text: &'a str) -> Self {
        let body = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let lines: Vec<_> = body.split_inclusive('\n').map(FileLine::of).collect();
        let crlf = lines.iter().filter(|line| line.end == "\r\n").count();
        let lf = lines.iter().filter(|line| line.end == "\n").count();
        Self {
            mark: &text[..text.len() - body.len()],
            end: if crlf > lf { "\r\n" } else { "\n" },
            ended: body.is_empty() || body.ends_with('\n'),
            lines,
        }
    }

    /// Where some lines begin, at `from` or later: as they are, or else more and more loosely.
    fn seek(&self, wanted: &[&str], from: usize, at_end: bool) -> Option<usize> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        let starts = if at_end { last.max(from)..=last } else { from..=last };
        let passes: [fn(&str) -> Cow<'_, str>; 4] = [
            |line| line.into(),
            |line| line.trim_end().into(),
            |line| line.trim().into(),
            |line| fold::line(line).into(),
        ];
        passes.iter().find_map(|loosely| {
            let wanted: Vec<_> = wanted.iter().map(|line| loosely(line)).collect();
            let fits = |start: &usize| {
                self.lines[*start..].iter().zip(&wanted).all(|(line, wanted)| loosely(&line.text) == *wanted)
            };
            starts.clone().find(fits)
        })
    }

    /// Changes the lines from `start` on; where the piece ends after it. What is kept is kept as the file has it.
    fn change(&mut self, lines: &[Line], start: usize) -> Option<usize> {
        let mut rest = self.lines.split_off(start).into_iter();
        for line in lines {
            match line {
                Line::Keep(_) => self.lines.push(rest.next()?),
                Line::Remove(_) => drop(rest.next()?),
                Line::Add(text) => {
                    self.lines.push(FileLine { text: text.clone().into(), end: self.end });
                }
            }
        }
        let end = self.lines.len();
        self.lines.extend(rest);
        Some(end)
    }

    fn text(&self) -> String {
        let mut text = self.mark.to_owned();
        for (index, line) in self.lines.iter().enumerate() {
            text.push_str(&line.text);
            let is_last = index + 1 == self.lines.len();
            match (is_last, line.end) {
                (true, _) if !self.ended => {}
                (_, "") => text.push_str(self.end),
                (_, end) => text.push_str(end),
            }
        }
        text
    }
}

impl<'a> FileLine<'a> {
    fn of(line: &'a str) -> Self {
        let (text, end) = if let Some(text) = line.strip_suffix("\r\n") {
            (text, "\r\n")
        } else if let Some(text) = line.strip_suffix('\n') {
            (text, "\n")
        } else {
            (line, "")
        };
        Self { text: text.into(), end }
    }
}
