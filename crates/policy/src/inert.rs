//! Text made inert: whatever could hide, move or imitate text is spelled out, so that what a person reads is what is
//! there.
//!
//! A character that cannot be seen for what it is becomes `⟨U+202E⟩`, padding becomes `⟨40 spaces⟩`, and the middle of
//! a long text becomes `⟨1234 characters left out, sha256 …⟩`. Ordinary text of any script stays as it is. The bracket
//! `⟨` itself is spelled out as well: nobody can write such a mark into the text.

mod class;

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use unicode_normalization::char::is_combining_mark;

use class::is_deceptive;

/// Begins a mark.
const OPEN: char = '⟨';
/// The longest run of one character that is shown as it is.
const LONGEST_RUN: usize = 32;
/// The most line ends in a row that are shown as they are.
const BLANK_LINES: usize = 4;
/// The most combining marks that one character may carry.
const MARKS: usize = 4;
/// How much of a text is shown, in characters of its inert form.
const LONGEST: usize = 8_000;

/// Makes a text inert. Line ends and tabs stay.
pub fn inert(text: &str) -> String {
    within(&spelled(text, Lines::Many), LONGEST)
}

/// The same for a text that is shown in one line: line ends and tabs are spelled out.
pub fn inert_line(text: &str) -> String {
    within(&spelled(text, Lines::One), LONGEST)
}

/// Whether a character may be shown as it is, in one line.
pub(crate) fn is_plain(character: char) -> bool {
    character != OPEN && !is_deceptive(character) && !is_combining_mark(character)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    One,
    Many,
}

fn spelled(text: &str, lines: Lines) -> String {
    let mut writer = Writer { out: String::with_capacity(text.len()), lines, marks: Some(0) };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let blank = blanks(rest);
        let length = if blank.is_empty() { run(rest) } else { blank };
        if !blank.is_empty() && is_padding(blank) {
            writer.padding(blank);
        } else if blank.is_empty() && length.chars().count() > LONGEST_RUN {
            writer.repeated(first, length.chars().count());
        } else {
            length.chars().for_each(|character| writer.character(character));
        }
        rest = &rest[length.len()..];
    }
    writer.out
}

/// The blanks at the beginning of a text.
fn blanks(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches([' ', '\t', '\n']).len()]
}

/// The run of one character at the beginning of a text.
fn run(text: &str) -> &str {
    let first = text.chars().next();
    &text[..text.len() - text.trim_start_matches(|character| Some(character) == first).len()]
}

/// Whether blanks push away what follows them.
fn is_padding(blanks: &str) -> bool {
    let count = |of: char| blanks.chars().filter(|blank| *blank == of).count();
    let columns = count(' ') + 4 * count('\t');
    columns > LONGEST_RUN || count('\n') > BLANK_LINES
}

struct Writer {
    out: String,
    lines: Lines,
    /// How many combining marks the last character carries; nothing can carry one after a mark of ours or a blank.
    marks: Option<usize>,
}

impl Writer {
    fn character(&mut self, character: char) {
        if is_combining_mark(character) {
            return self.combining(character);
        }
        let breaks = matches!(character, '\n' | '\t') && self.lines == Lines::Many;
        if breaks || is_plain(character) {
            self.out.push(character);
            self.marks = (!breaks && character != ' ').then_some(0);
        } else {
            self.code(character);
        }
    }

    /// A mark needs something to sit on, and not too many others beside it.
    fn combining(&mut self, mark: char) {
        match self.marks {
            Some(count) if count < MARKS && !is_deceptive(mark) && !self.out.is_empty() => {
                self.marks = Some(count + 1);
                self.out.push(mark);
            }
            _ => self.code(mark),
        }
    }

    fn code(&mut self, character: char) {
        let _ = write!(self.out, "{OPEN}U+{:04X}⟩", u32::from(character));
        self.marks = None;
    }

    /// Each run of the same blank by its length.
    fn padding(&mut self, blanks: &str) {
        let mut rest = blanks;
        while let Some(first) = rest.chars().next() {
            let same = run(rest);
            self.repeated(first, same.len());
            rest = &rest[same.len()..];
        }
    }

    fn repeated(&mut self, character: char, count: usize) {
        let _ = match character {
            ' ' => write!(self.out, "{OPEN}{count} spaces⟩"),
            '\t' => write!(self.out, "{OPEN}{count} tabs⟩"),
            '\n' => write!(self.out, "{OPEN}{count} line ends⟩"),
            plain if is_plain(plain) => write!(self.out, "{OPEN}{count} × {plain}⟩"),
            other => write!(self.out, "{OPEN}{count} × U+{:04X}⟩", u32::from(other)),
        };
        // Lines that were really there stay lines, once.
        if character == '\n' && self.lines == Lines::Many {
            self.out.push('\n');
        }
        self.marks = None;
    }
}

/// Keeps the head and the tail of an inert text, and says what is missing between them. Two texts that differ only in
/// what was left out still read differently.
pub(crate) fn within(inert: &str, longest: usize) -> String {
    let length = inert.chars().count();
    if length <= longest {
        return inert.to_owned();
    }
    let kept = longest / 2;
    let at = |index: usize| inert.char_indices().nth(index).map_or(inert.len(), |(offset, _)| offset);
    let (head, tail) = (at(kept), at(length - kept));
    let hash = Sha256::digest(&inert.as_bytes()[head..tail]);
    let mut out = inert[..head].to_owned();
    let _ = write!(out, "{OPEN}{} characters left out, sha256 ", length - 2 * kept);
    for byte in &hash[..16] {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('⟩');
    // A mark has nothing to sit on at a cut.
    let tail = &inert[tail..];
    for (place, character) in tail.char_indices() {
        if !is_combining_mark(character) {
            out.push_str(&tail[place..]);
            break;
        }
        let _ = write!(out, "{OPEN}U+{:04X}⟩", u32::from(character));
    }
    out
}

#[cfg(test)]
mod tests;
