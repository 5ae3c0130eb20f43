//! Printing: to a terminal for a person, to a pipe for a program.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

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

/// Prints text as it is and sends it on its way. Whoever reads may have gone: that ends the command, quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
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
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Makes text from outside harmless on a terminal: no control characters but line breaks and tabs.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
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
    let mut cells = 0;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '\x1b' {
            characters.by_ref().find(|c| *c == 'm');
        } else {
            cells += if is_wide(c) { 2 } else { 1 };
        }
    }
    cells
}

fn is_wide(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe4f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1f64f | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd)
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
    }
}
