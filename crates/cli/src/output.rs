//! Printing: to a terminal for a person, to a pipe for a program.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::cells::cells;
use crate::failure::Failure;

/// Where standard output goes and whether colour is wanted there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) terminal: bool,
    pub(crate) colour: bool,
}

impl Output {
    pub(crate) fn detect() -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { terminal, colour: terminal && !no_colour && !dumb }
    }

    /// Text that stands back.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn blue(self, text: &str) -> String {
        self.paint("34", text)
    }

    /// Cells of a line: those of the terminal, or what is usual.
    pub(crate) fn columns(self) -> usize {
        let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let seen = || {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| self.terminal)?;
            Some(usize::from(size.ws_col))
        };
        asked.or_else(seen).filter(|columns| *columns > 0).unwrap_or(80)
    }

    fn paint(self, style: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Prints text and sends it on its way. Whoever reads may have gone: that ends the command, quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { guarded(text) } else { Cow::Borrowed(text) };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(141),
        other => other.map_err(Failure::from),
    }
}

pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// One value, indented by two, as the contract shows it.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print_line(&format!("{value:#}"))
}

/// To standard error; nothing can be done if that fails.
pub(crate) fn complain(text: &str) {
    mutter(&format!("{text}\n"));
}

/// The same without a line's end: more follows.
pub(crate) fn mutter(text: &str) {
    let mut out = io::stderr().lock();
    let text = if out.is_terminal() { guarded(text) } else { Cow::Borrowed(text) };
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Text from outside without anything that steers a terminal or moves what is read. Line ends and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter_map(shown).collect()
}

/// What stands for a character where people read it.
fn shown(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        // Ends of a line that came with a carriage return.
        '\r' => None,
        '\u{2028}' | '\u{2029}' => Some(' '),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            Some('\u{fffd}')
        }
        c if c.is_control() => Some('\u{fffd}'),
        c => Some(c),
    }
}

/// What a terminal is given at last: text and our own styles, whatever a printer forgot.
fn guarded(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| shown(c) == Some(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = style_at(rest);
        let (piece, after) = rest.split_at(style.unwrap_or_else(|| c.len_utf8()));
        match style {
            Some(_) => out.push_str(piece),
            None => out.extend(shown(c)),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// The length of the style that a text begins with.
fn style_at(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers.get(end..)?.starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// Columns that line up, the first row being the titles.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, wide) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(wide - width(cell) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Cells of a terminal: East Asian characters take two, our own styles none.
pub(crate) fn width(text: &str) -> usize {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '\x1b' {
            characters.by_ref().find(|c| *c == 'm');
        } else {
            plain.push(c);
        }
    }
    cells(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_under_wide_characters() {
        let rows = [vec!["会话".to_owned(), "x".to_owned()], vec!["main".to_owned(), "y".to_owned()]];
        assert_eq!(table(&rows), "会话  x\nmain  y\n");
    }

    #[test]
    fn a_styled_title_takes_no_more_room_than_a_plain_one() {
        let styled = Output { terminal: true, colour: true };
        let rows = [vec![styled.dim("run"), "x".to_owned()], vec!["lc-1".to_owned(), "y".to_owned()]];
        assert_eq!(table(&rows), "\x1b[2mrun\x1b[0m   x\nlc-1  y\n");
    }

    #[test]
    fn an_escape_sequence_in_a_message_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\tc\n"), "a\u{fffd}[31mb\tc\n");
        assert_eq!(printable("a\u{9b}2Jb\r\n\u{202e}c\u{2066}"), "a\u{fffd}2Jb\n\u{fffd}c\u{fffd}");
    }

    #[test]
    fn a_terminal_is_given_our_styles_and_nothing_else_that_steers_it() {
        let ours = "\x1b[1;34mtool\x1b[0m 你好\n";
        assert_eq!(guarded(ours), ours);
        assert_eq!(
            guarded("\x1b[2J\x1b]52;c;eA==\x07\x1b[1\x1b[0m\u{202e}"),
            "\u{fffd}[2J\u{fffd}]52;c;eA==\u{fffd}\u{fffd}[1\x1b[0m\u{fffd}"
        );
    }
}
