//! Markdown that is still coming, as rows of a terminal. Pure.
//!
//! A line of the source is a line of the answer: a line end that a model wrote is kept. What cannot change any more is
//! handed out once; the rest is [`Markdown::tail`]. What comes out does not depend on where the text was cut.

mod inline;
mod shape;
mod table;
#[cfg(test)]
mod tests;

use self::inline::{Source, inline};
use self::shape::{Fence, Shape, shape};
use super::line::{CYAN, DIM, Line, PLAIN, without_tabs};
use super::wrap::{Break, Lead, Row, rows};
use crate::output::printable;

/// Narrower than this nothing can be read; wider is broken off by the terminal.
const NARROWEST: usize = 16;
/// Rules do not go on for ever.
const RULE: usize = 40;

pub(super) struct Markdown {
    width: usize,
    /// The line that is still coming.
    pending: String,
    /// How much of that line's shown text was handed out.
    handed_out: usize,
    /// How long the line was when it was last looked at.
    looked_at: usize,
    open: Open,
    last: Last,
}

/// What goes on over several lines.
enum Open {
    Nothing,
    Fence(Fence),
    /// The lines of a table so far; its columns are known at its end.
    Table(Vec<String>),
}

/// What was handed out last: blank lines are kept single, and none comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Text,
    /// Owed, and shown before the next text.
    Blank,
}

impl Markdown {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width: width.max(NARROWEST),
            pending: String::new(),
            handed_out: 0,
            looked_at: 0,
            open: Open::Nothing,
            last: Last::Nothing,
        }
    }

    /// The terminal changed: what comes from now on is broken at this width.
    pub(super) fn resize(&mut self, width: usize) {
        self.width = width.max(NARROWEST);
    }

    /// Takes more of the text and answers the rows that cannot change any more.
    pub(super) fn push(&mut self, delta: &str) -> Vec<Line> {
        let mut done = Vec::new();
        for piece in without_tabs(&printable(delta)).split_inclusive('\n') {
            self.pending.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.pending);
                self.line_ended(&line, &mut done);
                (self.handed_out, self.looked_at) = (0, 0);
            }
        }
        // Once for every row that may have become full: a long line is not read again with each of its words.
        if self.pending.len() >= self.looked_at + self.width {
            self.looked_at = self.pending.len();
            self.hand_out_full_rows(&mut done);
        }
        done
    }

    /// What is there so far and may still change.
    pub(super) fn tail(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        match &self.open {
            Open::Fence(fence) if !fence.is_closed_by(&self.pending) && !self.pending.is_empty() => {
                lines = self.code(fence, &self.pending);
            }
            Open::Fence(_) => {}
            Open::Table(source) => {
                let mut source = source.clone();
                if self.pending.trim_start().starts_with('|') {
                    source.push(self.pending.clone());
                    lines = table::table(&source, self.width);
                } else {
                    lines = table::table(&source, self.width);
                    lines.extend(self.whole(&self.pending, self.handed_out));
                }
            }
            Open::Nothing => lines = self.whole(&self.pending, self.handed_out),
        }
        if self.last == Last::Blank && lines.iter().any(|line| !line.spans().is_empty()) {
            lines.insert(0, Line::default());
        }
        lines
    }

    /// The text has ended: everything that is left.
    pub(super) fn finish(&mut self) -> Vec<Line> {
        let mut done = Vec::new();
        let line = std::mem::take(&mut self.pending);
        if !line.is_empty() {
            self.line_ended(&line, &mut done);
        }
        self.end_table(&mut done);
        (self.open, self.last, self.handed_out, self.looked_at) = (Open::Nothing, Last::Nothing, 0, 0);
        done
    }

    fn line_ended(&mut self, line: &str, done: &mut Vec<Line>) {
        if let Open::Fence(fence) = &self.open {
            if fence.is_closed_by(line) {
                self.open = Open::Nothing;
                return;
            }
            let code = self.code(fence, line);
            return self.emit(code, done);
        }
        let found = shape(line);
        if let (Open::Table(source), Shape::Table) = (&mut self.open, &found) {
            return source.push(line.to_owned());
        }
        self.end_table(done);
        match found {
            Shape::Blank if self.last == Last::Text => self.last = Last::Blank,
            Shape::Blank => {}
            Shape::Table => self.open = Open::Table(vec![line.to_owned()]),
            Shape::Fence(fence) => {
                self.emit(fence.title(self.width), done);
                self.open = Open::Fence(fence);
            }
            Shape::Rule | Shape::Text(_) => {
                let rows = self.whole(line, self.handed_out);
                self.emit(rows, done);
            }
        }
    }

    fn end_table(&mut self, done: &mut Vec<Line>) {
        if let Open::Table(source) = &self.open {
            let rows = table::table(source, self.width);
            self.open = Open::Nothing;
            self.emit(rows, done);
        }
    }

    fn emit(&mut self, rows: Vec<Line>, done: &mut Vec<Line>) {
        if rows.is_empty() {
            return;
        }
        if self.last == Last::Blank {
            done.push(Line::default());
        }
        self.last = Last::Text;
        done.extend(rows);
    }

    /// The rows of one line, from a byte of its shown text on.
    fn whole(&self, line: &str, from: usize) -> Vec<Line> {
        match shape(line) {
            Shape::Blank => Vec::new(),
            Shape::Rule => vec![Line::styled(DIM, "─".repeat(self.width.min(RULE)))],
            Shape::Fence(fence) => fence.title(self.width),
            Shape::Table => table::table(&[line.to_owned()], self.width),
            Shape::Text(text) => {
                let read = inline(text.content, text.style, Source::Whole);
                let rows = rows(&read.line, &text.lead(self.width), self.width, from, Break::Words);
                rows.into_iter().map(|row| row.line).collect()
            }
        }
    }

    fn code(&self, fence: &Fence, line: &str) -> Vec<Line> {
        let lead = Lead::same(Line::styled(PLAIN, fence.blanks(self.width)));
        let text = Line::styled(CYAN, fence.content(line));
        rows(&text, &lead, self.width, 0, Break::Anywhere).into_iter().map(|row| row.line).collect()
    }

    /// Hands out the rows of the line that is coming which are full and settled.
    fn hand_out_full_rows(&mut self, done: &mut Vec<Line>) {
        if matches!(self.open, Open::Fence(_)) {
            return;
        }
        let Shape::Text(text) = shape(&self.pending) else { return };
        let read = inline(text.content, text.style, Source::Growing);
        let all = rows(&read.line, &text.lead(self.width), self.width, self.handed_out, Break::Words);
        // A row ends where it does because of the word that did not fit: that word must be settled as well.
        let full = all.windows(2).take_while(|pair| pair[1].next <= read.settled).count();
        let settled: Vec<Row> = all.into_iter().take(full).collect();
        if let Some(last) = settled.last() {
            self.handed_out = last.next;
            self.end_table(done);
            self.emit(settled.into_iter().map(|row| row.line).collect(), done);
        }
    }
}
