//! A tiny terminal: a grid, its scrollback, and the few sequences that are written.

use crate::cells::{cluster_cells, clusters};

pub(super) struct Terminal {
    width: usize,
    height: usize,
    grid: Vec<Vec<String>>,
    scrollback: Vec<String>,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Terminal {
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self { width, height, grid: vec![Vec::new(); height], scrollback: Vec::new(), row: 0, column: 0 }
    }

    /// Everything that can be read, from the top of the scrollback to the last row with something on it.
    pub(super) fn text(&self) -> Vec<String> {
        let shown = self.grid.iter().map(|row| row.concat().trim_end().to_owned());
        let mut all: Vec<String> = self.scrollback.iter().cloned().chain(shown).collect();
        while all.last().is_some_and(String::is_empty) {
            all.pop();
        }
        all
    }

    /// The cursor's row, counted from the top of the scrollback.
    pub(super) fn absolute_row(&self) -> usize {
        self.scrollback.len() + self.row
    }

    pub(super) fn write(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("\x1b[") {
                let end = after.find(|c: char| c.is_ascii_alphabetic()).expect("a whole sequence");
                self.obey(&after[..end], after.as_bytes()[end]);
                rest = &after[end + 1..];
                continue;
            }
            let sign = clusters(rest).next().expect("there is more");
            match sign {
                "\r" => self.column = 0,
                "\n" => self.line_feed(),
                sign => self.put(sign),
            }
            rest = &rest[sign.len()..];
        }
    }

    fn obey(&mut self, parameters: &str, last: u8) {
        let count: usize = parameters.parse().unwrap_or(1);
        match last {
            b'A' => self.row = self.row.saturating_sub(count),
            b'B' => self.row = (self.row + count).min(self.height - 1),
            b'G' => self.column = (count - 1).min(self.width - 1),
            b'K' => self.grid[self.row].truncate(self.column.min(self.width - 1)),
            b'J' => {
                self.grid[self.row].truncate(self.column);
                self.grid[self.row + 1..].iter_mut().for_each(Vec::clear);
            }
            b'm' | b'h' | b'l' => {}
            other => panic!("an unknown sequence: {parameters}{}", char::from(other)),
        }
    }

    fn line_feed(&mut self) {
        if self.row + 1 < self.height {
            self.row += 1;
            return;
        }
        let top = self.grid.remove(0);
        self.scrollback.push(top.concat().trim_end().to_owned());
        self.grid.push(Vec::new());
    }

    fn put(&mut self, sign: &str) {
        let wide = cluster_cells(sign);
        if self.column + wide > self.width {
            self.column = 0;
            self.line_feed();
        }
        let row = &mut self.grid[self.row];
        row.resize((self.column + wide).max(row.len()), " ".to_owned());
        row[self.column] = sign.to_owned();
        // The second cell of a wide sign shows nothing of its own.
        row[self.column + 1..self.column + wide].fill(String::new());
        self.column += wide;
    }
}
