//! A text with a cursor in it. The cursor is always between two signs.

use super::super::keys::Key;
use crate::cells::{first_cluster, last_cluster};

/// More than this is not taken.
const LONGEST: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Text {
    text: String,
    /// In bytes.
    cursor: usize,
}

impl Text {
    /// The cursor is at its end.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len() }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }

    pub(super) fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    pub(super) fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Line ends and tabs are text, other control characters are not. Answers whether anything came of it.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        if clean.is_empty() || self.text.len() + clean.len() > LONGEST {
            return false;
        }
        self.text.insert_str(self.cursor, &clean);
        self.cursor += clean.len();
        // A mark that was typed alone may have joined the sign that follows.
        while self.cursor < self.text.len() && !self.is_between_signs() {
            self.cursor += self.after().chars().next().map_or(1, char::len_utf8);
        }
        true
    }

    fn is_between_signs(&self) -> bool {
        let start = self.line_start();
        let mut at = start;
        while at < self.cursor {
            at += first_cluster(self.text.get(at..).unwrap_or_default()).max(1);
        }
        at == self.cursor
    }

    /// Puts a word in the place of everything from a byte to the cursor.
    pub(super) fn replace_before(&mut self, from: usize, word: &str) {
        self.text.replace_range(from..self.cursor, word);
        self.cursor = from + word.len();
    }

    pub(super) fn remove_before(&mut self) -> String {
        self.remove(self.cursor - last_cluster(self.before()), self.cursor)
    }

    pub(super) fn remove_after(&mut self) -> String {
        self.remove(self.cursor, self.cursor + first_cluster(self.after()))
    }

    pub(super) fn remove_word_before(&mut self) -> String {
        self.remove(self.word_left(), self.cursor)
    }

    pub(super) fn remove_word_after(&mut self) -> String {
        self.remove(self.cursor, self.word_right())
    }

    pub(super) fn remove_to_line_start(&mut self) -> String {
        self.remove(self.line_start(), self.cursor)
    }

    pub(super) fn remove_to_line_end(&mut self) -> String {
        self.remove(self.cursor, self.line_end())
    }

    fn remove(&mut self, from: usize, to: usize) -> String {
        self.cursor = from;
        self.text.drain(from..to).collect()
    }

    /// Moves the cursor.
    pub(super) fn go(&mut self, key: &Key) {
        self.cursor = match key {
            Key::Left | Key::Ctrl('b') => self.cursor - last_cluster(self.before()),
            Key::Right | Key::Ctrl('f') => self.cursor + first_cluster(self.after()),
            Key::WordLeft => self.word_left(),
            Key::WordRight => self.word_right(),
            Key::Home | Key::Ctrl('a') => self.line_start(),
            Key::End | Key::Ctrl('e') => self.line_end(),
            _ => self.cursor,
        };
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.after().find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_left(&self) -> usize {
        let rest = self.before().trim_end_matches(|c: char| !c.is_alphanumeric());
        rest.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let rest = self.after().trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - rest.trim_start_matches(char::is_alphanumeric).len()
    }

    /// To the line above, at the same sign. Answers whether there is one.
    pub(super) fn line_up(&mut self) -> bool {
        let start = self.line_start();
        let Some(above_end) = start.checked_sub(1) else { return false };
        let above = self.text.get(..above_end).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        self.cursor = self.same_place(start, above, above_end);
        true
    }

    pub(super) fn line_down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let below = end + 1;
        let below_end =
            self.text.get(below..).and_then(|text| text.find('\n')).map_or(self.text.len(), |at| below + at);
        self.cursor = self.same_place(self.line_start(), below, below_end);
        true
    }

    fn same_place(&self, start: usize, from: usize, to: usize) -> usize {
        let signs = crate::cells::clusters(self.text.get(start..self.cursor).unwrap_or_default()).count();
        let line = self.text.get(from..to).unwrap_or_default();
        from + crate::cells::clusters(line).take(signs).map(str::len).sum::<usize>()
    }

    /// A backslash at the very end asks for another line, and becomes its beginning.
    pub(super) fn continues(&mut self) -> bool {
        let backslashes = self.text.len() - self.text.trim_end_matches('\\').len();
        let continues = self.cursor == self.text.len() && backslashes % 2 == 1;
        if continues {
            self.text.pop();
            self.text.push('\n');
            self.cursor = self.text.len();
        }
        continues
    }
}
