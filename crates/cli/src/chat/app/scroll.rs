//! What goes into the scrollback: rows in their order, with a blank row where one thing ends and another begins.

use super::super::line::{BLUE, BOLD, DIM, Line, PLAIN, RED, Style, YELLOW};
use super::super::wrap::{Break, Lead, rows};
use crate::output::printable;

#[derive(Default)]
pub(super) struct Scroll {
    finished: Vec<Line>,
    last: Option<Kind>,
}

/// What a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What the person said: each time a thing of its own.
    Spoken,
    Answer,
    Thought,
    Card,
    Question,
    Remark,
    /// An answer that is over: nothing belongs to it any more.
    Ended,
}

impl Scroll {
    pub(super) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.finished)
    }

    pub(super) fn add(&mut self, kind: Kind, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        if self.begins_with_blank(kind) {
            self.finished.push(Line::default());
        }
        self.last = Some(kind);
        self.finished.extend(lines);
    }

    /// Whether a blank row stands before a thing of this kind.
    pub(super) fn begins_with_blank(&self, kind: Kind) -> bool {
        self.last.is_some_and(|last| last != kind || kind == Kind::Spoken)
    }

    /// The next rows belong to another answer.
    pub(super) fn answer_ended(&mut self) {
        if self.last == Some(Kind::Answer) {
            self.last = Some(Kind::Ended);
        }
    }

    /// What the person said.
    pub(super) fn spoken(&mut self, text: &str, width: usize) {
        let mut lines = Vec::new();
        for (at, line) in printable(text).trim_end().lines().enumerate() {
            let first = Line::styled(BLUE, if at == 0 { "› " } else { "  " });
            let lead = Lead { first, rest: Line::styled(PLAIN, "  ") };
            lines.extend(broken(&Line::styled(BOLD, line), &lead, width));
        }
        self.add(Kind::Spoken, lines);
    }

    /// What the model thought.
    pub(super) fn thought(&mut self, text: &str, width: usize) {
        let lead = || Line::styled(PLAIN, "  ");
        let mut lines = Vec::new();
        for line in printable(text).trim_end().lines() {
            let lead = Lead { first: lead(), rest: lead() };
            lines.extend(broken(&Line::styled(DIM, line), &lead, width));
        }
        self.add(Kind::Thought, lines);
    }

    /// Something the person should know.
    pub(super) fn remark(&mut self, text: &str, width: usize) {
        self.note("·", DIM, DIM, text, width);
    }

    pub(super) fn warning(&mut self, text: &str, width: usize) {
        self.note("!", YELLOW, PLAIN, text, width);
    }

    pub(super) fn failure(&mut self, text: &str, width: usize) {
        self.note("✗", RED, RED, text, width);
    }

    fn note(&mut self, sign: &str, sign_style: Style, style: Style, text: &str, width: usize) {
        let mut lines = Vec::new();
        for (at, line) in printable(text).lines().enumerate() {
            let first = Line::styled(sign_style, if at == 0 { format!("{sign} ") } else { "  ".to_owned() });
            let lead = Lead { first, rest: Line::styled(PLAIN, "  ") };
            lines.extend(broken(&Line::styled(style, line), &lead, width));
        }
        self.add(Kind::Remark, lines);
    }
}

fn broken(line: &Line, lead: &Lead, width: usize) -> Vec<Line> {
    rows(line, lead, width, 0, Break::Words).into_iter().map(|row| row.line).collect()
}
