//! What a line of Markdown is, by its beginning. Pure.

use super::super::line::{BOLD, DIM, Line, PLAIN, Style};
use super::super::wrap::Lead;

pub(super) enum Shape<'a> {
    Blank,
    Rule,
    /// The beginning of a block of code.
    Fence(Fence),
    /// A row of a table.
    Table,
    Text(Text<'a>),
}

/// A line of text: a paragraph, a heading, an item of a list, a quote.
pub(super) struct Text<'a> {
    pub(super) content: &'a str,
    pub(super) style: Style,
    /// How many quotes it stands in.
    quotes: usize,
    indent: usize,
    /// What marks the item of a list.
    bullet: String,
}

impl Text<'_> {
    /// What stands before its rows. Deep lists keep room for their text.
    pub(super) fn lead(&self, width: usize) -> Lead {
        let bars = "│ ".repeat(self.quotes.min(width / 8));
        let indent = " ".repeat(self.indent.min(width / 4));
        let start = Line::styled(DIM, bars).then(PLAIN, indent);
        let blanks = " ".repeat(crate::cells::cells(&self.bullet));
        Lead { first: start.clone().then(DIM, self.bullet.as_str()), rest: start.then(PLAIN, blanks) }
    }
}

/// A block of code that is open.
pub(super) struct Fence {
    mark: char,
    count: usize,
    indent: usize,
    label: String,
}

impl Fence {
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.count && line.chars().all(|c| c == self.mark)
    }

    /// The line without the blanks that the whole block has.
    pub(super) fn content<'a>(&self, line: &'a str) -> &'a str {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        line.get(blanks.min(self.indent)..).unwrap_or_default()
    }

    /// The language, if it has one.
    pub(super) fn title(&self, width: usize) -> Vec<Line> {
        let title = || Line::styled(DIM, self.blanks(width) + &self.label).cut(width);
        if self.label.is_empty() { Vec::new() } else { vec![title()] }
    }

    /// What stands before its lines.
    pub(super) fn blanks(&self, width: usize) -> String {
        " ".repeat(2 + self.indent.min(width / 4))
    }
}

pub(super) fn shape(line: &str) -> Shape<'_> {
    let mut text = line.trim_end();
    let mut quotes = 0;
    while let Some(rest) = text.trim_start().strip_prefix('>') {
        quotes += 1;
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    let indent = text.len() - text.trim_start_matches(' ').len();
    let text = text.trim_start();
    if quotes == 0 {
        if text.is_empty() {
            return Shape::Blank;
        }
        if is_rule(text) {
            return Shape::Rule;
        }
        if text.starts_with('|') {
            return Shape::Table;
        }
        if let Some(fence) = fence(text, indent) {
            return Shape::Fence(fence);
        }
    }
    if let Some((text, style)) = heading(text) {
        return Shape::Text(Text { content: text, style, quotes, indent: 0, bullet: String::new() });
    }
    let (bullet, text) = item(text);
    // Text that goes on under an item of a list keeps its place; other blanks mean nothing.
    Shape::Text(Text { content: text, style: PLAIN, quotes, indent, bullet })
}

fn is_rule(text: &str) -> bool {
    let marks = text.chars().filter(|c| !c.is_whitespace());
    ['-', '*', '_'].iter().any(|mark| marks.clone().all(|c| c == *mark)) && marks.count() >= 3
}

fn fence(text: &str, indent: usize) -> Option<Fence> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let label = text.trim_start_matches(mark);
    let count = text.len() - label.len();
    // Backticks later in the line make it code inside a paragraph.
    if count < 3 || mark == '`' && label.contains('`') {
        return None;
    }
    let label = label.trim();
    let word = label.split([' ', '{', ',']).next().unwrap_or_default();
    Some(Fence { mark, count, indent, label: word.to_owned() })
}

fn heading(text: &str) -> Option<(&str, Style)> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if !(1..=6).contains(&level) || !rest.starts_with(' ') {
        return None;
    }
    let style = match level {
        1 => Style { underline: true, ..BOLD },
        2 => BOLD,
        _ => Style { italic: true, ..BOLD },
    };
    let text = rest.trim();
    let closed = text.trim_end_matches('#');
    Some((if closed.ends_with(' ') { closed.trim_end() } else { text }, style))
}

/// The mark of a list's item and the text after it.
fn item(text: &str) -> (String, &str) {
    for mark in ["- ", "* ", "+ "] {
        if let Some(rest) = text.strip_prefix(mark) {
            return ("• ".to_owned(), rest.trim_start());
        }
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let after = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "));
    match after {
        Some(after) if (1..=4).contains(&digits) => (format!("{number}. "), after.trim_start()),
        _ => (String::new(), text),
    }
}
