//! A line of the terminal: pieces of text, each with its style. Pure.

use std::borrow::Cow;

use crate::cells::{cells, clusters};
use crate::output::printable;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    pub(super) weight: Weight,
    pub(super) colour: Colour,
    pub(super) italic: bool,
    pub(super) underline: bool,
    pub(super) struck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Weight {
    #[default]
    Normal,
    Bold,
    /// Text that stands back.
    Dim,
}

/// The terminal's own palette: it fits whatever background the person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Colour {
    #[default]
    Own,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
}

pub(super) const PLAIN: Style =
    Style { weight: Weight::Normal, colour: Colour::Own, italic: false, underline: false, struck: false };
pub(super) const BOLD: Style = Style { weight: Weight::Bold, ..PLAIN };
pub(super) const DIM: Style = Style { weight: Weight::Dim, ..PLAIN };
pub(super) const RED: Style = PLAIN.coloured(Colour::Red);
pub(super) const GREEN: Style = PLAIN.coloured(Colour::Green);
pub(super) const YELLOW: Style = PLAIN.coloured(Colour::Yellow);
pub(super) const BLUE: Style = PLAIN.coloured(Colour::Blue);
pub(super) const CYAN: Style = PLAIN.coloured(Colour::Cyan);

impl Style {
    pub(super) const fn coloured(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    /// The numbers that turn it on.
    fn codes(self) -> String {
        let weight = match self.weight {
            Weight::Normal => "",
            Weight::Bold => "1",
            Weight::Dim => "2",
        };
        let colour = match self.colour {
            Colour::Own => "",
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Blue => "34",
            Colour::Cyan => "36",
        };
        let on = |on: bool, code: &'static str| if on { code } else { "" };
        let all = [weight, on(self.italic, "3"), on(self.underline, "4"), on(self.struck, "9"), colour];
        all.into_iter().filter(|code| !code.is_empty()).collect::<Vec<_>>().join(";")
    }
}

/// A piece of text without line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

/// One row. It holds no control characters: they would break it, or steer the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    spans: Vec<Span>,
}

impl Line {
    pub(super) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self::default().then(style, text)
    }

    /// The same with a piece more.
    pub(super) fn then(mut self, style: Style, text: impl Into<String>) -> Self {
        self.push(style, &text.into());
        self
    }

    pub(super) fn push(&mut self, style: Style, text: &str) {
        let text = if text.contains(char::is_control) { Cow::Owned(flat(text)) } else { Cow::Borrowed(text) };
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => last.text.push_str(&text),
            _ => self.spans.push(Span { style, text: text.into_owned() }),
        }
    }

    pub(super) fn append(&mut self, other: &Self) {
        other.spans.iter().for_each(|span| self.push(span.style, &span.text));
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Without its styles.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    pub(super) fn cells(&self) -> usize {
        self.spans.iter().map(|span| cells(&span.text)).sum()
    }

    /// As much of it as fits, with an ellipsis where something is missing.
    pub(super) fn cut(&self, width: usize) -> Self {
        if self.cells() <= width {
            return self.clone();
        }
        let mut room = width.saturating_sub(1);
        let mut line = Self::default();
        for span in &self.spans {
            let fits = fitting(&span.text, room);
            room -= cells(fits);
            line.push(span.style, fits);
            if fits.len() < span.text.len() {
                break;
            }
        }
        if width > 0 { line.then(DIM, "…") } else { line }
    }

    /// With the sequences that colour it, or without.
    pub(super) fn painted(&self, colour: bool) -> String {
        let mut out = String::new();
        for span in &self.spans {
            let codes = if colour { span.style.codes() } else { String::new() };
            if codes.is_empty() {
                out.push_str(&span.text);
            } else {
                out.extend(["\x1b[", &codes, "m", &span.text, "\x1b[0m"]);
            }
        }
        out
    }
}

/// A text in one row.
fn flat(text: &str) -> String {
    without_tabs(&printable(text)).replace('\n', " ")
}

/// Tabs are as wide as the terminal likes; blanks are not.
pub(super) fn without_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

/// The beginning of a text that takes no more than so many cells.
pub(super) fn fitting(text: &str, room: usize) -> &str {
    let mut used = 0;
    let mut end = 0;
    for cluster in clusters(text) {
        used += crate::cells::cluster_cells(cluster);
        if used > room {
            break;
        }
        end += cluster.len();
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_row_whatever_is_put_into_it() {
        let line = Line::styled(PLAIN, "a\x1b[2J\u{9b}b\tc\r\nd").then(RED, "\n");
        assert_eq!(line.text(), "a\u{fffd}[2J\u{fffd}b    c d ");
    }

    #[test]
    fn colour_is_left_out_where_it_is_not_wanted() {
        let line = Line::styled(BOLD, "a").then(PLAIN, "b").then(RED, "c");
        assert_eq!(line.painted(true), "\x1b[1ma\x1b[0mb\x1b[31mc\x1b[0m");
        assert_eq!(line.painted(false), "abc");
    }

    #[test]
    fn a_line_that_is_too_long_says_so_at_its_end() {
        let line = Line::styled(BOLD, "你好").then(PLAIN, "abc");
        assert_eq!(line.cut(7).text(), "你好abc");
        assert_eq!(line.cut(6).text(), "你好a…");
        assert_eq!(line.cut(4).text(), "你…");
        assert_eq!(line.cut(0).text(), "");
    }
}
