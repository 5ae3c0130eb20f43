//! The region at the bottom of the terminal that is drawn anew, and the scrollback above it. Pure: it answers what must
//! be written.
//!
//! Nothing is remembered of what went into the scrollback: it is the terminal's.

#[cfg(test)]
mod emulator;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::line::Line;
use crate::cells::{cluster_cells, clusters};

const ERASE_BELOW: &str = "\x1b[J";
const ERASE_ROW_END: &str = "\x1b[K";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Terminals that know it show what stands between the two at once.
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";

pub(super) struct Screen {
    width: usize,
    height: usize,
    colour: bool,
    /// The rows of the region as they are on the terminal.
    shown: Vec<Line>,
    /// The terminal's cursor, in the region: row and cell.
    cursor: (usize, usize),
}

impl Screen {
    pub(super) fn new(width: usize, height: usize, colour: bool) -> Self {
        Self { width, height, colour, shown: Vec::new(), cursor: (0, 0) }
    }

    /// How many rows the region may have: one less than the terminal.
    pub(super) fn room(&self) -> usize {
        self.height.saturating_sub(1).max(1)
    }

    /// Prints what is finished above the region and makes the region look like `live`.
    pub(super) fn draw(&mut self, finished: &[Line], live: &[Line], cursor: (usize, usize)) -> String {
        let hidden = live.len().saturating_sub(self.room());
        let live: Vec<Line> = live.iter().skip(hidden).map(|line| line.cut(self.width)).collect();
        let cursor = (cursor.0.saturating_sub(hidden), cursor.1.min(self.width.saturating_sub(1)));
        let mut out = String::new();
        if !finished.is_empty() {
            self.go(&mut out, (0, 0));
            out.push_str(ERASE_BELOW);
            for line in finished {
                out.push_str(&line.painted(self.colour));
                out.push_str("\r\n");
            }
            self.shown.clear();
        }
        let changed = self.change(&mut out, &live);
        self.go(&mut out, cursor);
        if changed <= 1 && finished.is_empty() {
            return out;
        }
        [BEGIN_UPDATE, HIDE_CURSOR, &out, SHOW_CURSOR, END_UPDATE].concat()
    }

    /// The terminal has another size. What it made of the region is erased; the next drawing brings it back.
    pub(super) fn resize(&mut self, width: usize, height: usize) -> String {
        let (width, height) = (width.max(1), height.max(1));
        if (width, height) == (self.width, self.height) {
            return String::new();
        }
        // A row that has become too long was broken by the terminal.
        let rows = |line: &Line| line.cells().div_ceil(width).max(1);
        let above: usize = self.shown.iter().take(self.cursor.0).map(rows).sum();
        let above = above + self.cursor.1 / width;
        let mut out = String::new();
        if above > 0 {
            let _ = write!(out, "\x1b[{above}A");
        }
        out.push('\r');
        out.push_str(ERASE_BELOW);
        (self.width, self.height) = (width, height);
        self.shown.clear();
        self.cursor = (0, 0);
        out
    }

    /// Writes the rows that differ and answers how many there were.
    fn change(&mut self, out: &mut String, live: &[Line]) -> usize {
        let mut changed = 0;
        for (row, new) in live.iter().enumerate() {
            match self.shown.get(row).cloned() {
                Some(old) if old == *new => continue,
                Some(old) => self.rewrite(out, row, &old, new),
                None => self.append(out, row, new),
            }
            changed += 1;
        }
        if self.shown.len() > live.len() {
            self.go(out, (live.len(), 0));
            out.push_str(ERASE_BELOW);
            changed += 1;
        }
        self.shown = live.to_vec();
        changed
    }

    /// A row that is there already: from the first sign on that is another.
    fn rewrite(&mut self, out: &mut String, row: usize, old: &Line, new: &Line) {
        let (cell, rest) = difference(old, new);
        self.go(out, (row, cell));
        out.push_str(&rest.painted(self.colour));
        if new.cells() < old.cells() {
            out.push_str(ERASE_ROW_END);
        }
        self.cursor = (row, new.cells());
    }

    fn append(&mut self, out: &mut String, row: usize, new: &Line) {
        if row > 0 {
            self.go(out, (row - 1, self.cursor.1));
            out.push_str("\r\n");
        }
        out.push_str(&new.painted(self.colour));
        self.cursor = (row, new.cells());
        if row >= self.shown.len() {
            self.shown.push(new.clone());
        }
    }

    /// Moves the terminal's cursor.
    fn go(&mut self, out: &mut String, to: (usize, usize)) {
        let (row, cell) = self.cursor;
        let _ = match to.0.cmp(&row) {
            std::cmp::Ordering::Less => write!(out, "\x1b[{}A", row - to.0),
            std::cmp::Ordering::Greater => write!(out, "\x1b[{}B", to.0 - row),
            std::cmp::Ordering::Equal => Ok(()),
        };
        // After the last cell of a row terminals do not agree on where the cursor is.
        if to.1 != cell || cell >= self.width {
            let _ = match to.1 {
                0 => write!(out, "\r"),
                cell => write!(out, "\x1b[{}G", cell + 1),
            };
        }
        self.cursor = to;
    }
}

/// The cell in which the first difference is, and the new row from there on.
fn difference(old: &Line, new: &Line) -> (usize, Line) {
    let signs = |line: &Line| -> Vec<_> {
        let spans = line.spans().iter();
        spans.flat_map(|span| clusters(&span.text).map(|sign| (span.style, sign.to_owned()))).collect()
    };
    let (old, new) = (signs(old), signs(new));
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let cell = new.iter().take(same).map(|(_, sign)| cluster_cells(sign)).sum();
    let rest =
        new.iter().skip(same).fold(Line::default(), |line, (style, sign)| line.then(*style, sign.as_str()));
    (cell, rest)
}
