//! The marks inside a line of Markdown: emphasis, code, links. Pure.
//!
//! A line may still be coming. [`Inline::settled`] says how much of what is shown stays as it is, whatever follows.

use std::collections::HashMap;

use super::super::line::{BLUE, CYAN, DIM, Line, Style, Weight};

/// Deeper marks are shown as they are written.
const DEEPEST: usize = 8;

/// Whether more of the line may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Whole,
    Growing,
}

pub(super) struct Inline {
    pub(super) line: Line,
    /// Bytes of the shown text that cannot change any more.
    pub(super) settled: usize,
}

/// Reads the marks of one line.
pub(super) fn inline(text: &str, base: Style, source: Source) -> Inline {
    let mut reader = Reader::new(text, base, 0);
    reader.read();
    let settled = match (source, reader.open) {
        (Source::Growing, Some(open)) => open,
        _ => reader.shown,
    };
    Inline { line: reader.line, settled }
}

struct Reader<'a> {
    text: &'a str,
    base: Style,
    depth: usize,
    line: Line,
    /// Bytes shown so far.
    shown: usize,
    /// Where the first thing that may still change is shown.
    open: Option<usize>,
    /// Marks for which there is no end in the rest of the line, so that they are looked for once.
    dead: Vec<Mark>,
    /// Where each bracket ends, once one was asked for.
    pairs: Option<Pairs>,
}

/// Where brackets that are open are closed.
type Pairs = HashMap<usize, usize>;

/// What opens something: a character, and how often it is there.
type Mark = (char, usize);

impl<'a> Reader<'a> {
    fn new(text: &'a str, base: Style, depth: usize) -> Self {
        let (line, dead) = (Line::default(), Vec::new());
        Self { text, base, depth, line, shown: 0, open: None, dead, pairs: None }
    }

    fn read(&mut self) {
        let mut at = 0;
        let mut plain = 0;
        while let Some(c) = self.text.get(at..).and_then(|rest| rest.chars().next()) {
            if !matches!(c, '`' | '*' | '_' | '~' | '[' | '!' | '<' | '\\') {
                at += c.len_utf8();
                continue;
            }
            self.show(plain, at);
            let end = self.mark(at, c);
            // What touches the end of the line may mean something else when more of it comes.
            plain = end.unwrap_or(at);
            at = end.unwrap_or_else(|| at + run(self.text, at, c).max(1));
        }
        self.show(plain, at);
    }

    fn show(&mut self, from: usize, to: usize) {
        let text = self.text.get(from..to).unwrap_or_default();
        self.shown += text.len();
        self.line.push(self.base, text);
    }

    /// Shows what begins at a mark and answers where it ends. Nothing when it is only a character.
    fn mark(&mut self, at: usize, c: char) -> Option<usize> {
        let before = self.shown;
        let count = run(self.text, at, c);
        let ended = match c {
            '`' => self.code(at, count),
            '*' | '_' | '~' => self.emphasis(at, c, count),
            '[' => self.link(at),
            '!' if self.text[at + 1..].starts_with('[') => self.link(at + 1),
            '<' => self.address(at),
            '\\' => self.escaped(at),
            _ => None,
        };
        // An end that was not found may come yet, and one at the very end may grow.
        let unsure = match ended {
            Some(end) => end >= self.text.len(),
            None => at + count >= self.text.len() || self.dead.contains(&(c, closing_count(c, count))),
        };
        if unsure {
            self.open.get_or_insert(before);
        }
        ended
    }

    fn is_dead(&self, mark: Mark) -> bool {
        self.dead.contains(&mark)
    }

    fn bury<T>(&mut self, mark: Mark) -> Option<T> {
        if !self.is_dead(mark) {
            self.dead.push(mark);
        }
        None
    }

    fn code(&mut self, at: usize, count: usize) -> Option<usize> {
        if self.is_dead(('`', count)) {
            return None;
        }
        let Some(close) = code_end(self.text, at + count, count) else { return self.bury(('`', count)) };
        let inside = self.text.get(at + count..close).unwrap_or_default();
        let trimmed = inside.strip_prefix(' ').and_then(|text| text.strip_suffix(' '));
        let inside = trimmed.filter(|text| !text.trim().is_empty()).unwrap_or(inside);
        let style = Style { colour: CYAN.colour, ..self.base };
        self.shown += inside.len();
        self.line.push(style, inside);
        Some(close + count)
    }

    fn emphasis(&mut self, at: usize, c: char, count: usize) -> Option<usize> {
        let known = if c == '~' { count == 2 } else { count <= 3 };
        let next = self.text[at + count..].chars().next();
        let glued = c == '_' && self.text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        if !known || glued || next.is_none_or(char::is_whitespace) || self.depth >= DEEPEST {
            return None;
        }
        if self.is_dead((c, count)) {
            return None;
        }
        let Some((close, sure)) = emphasis_end(self.text, at + count, c, count) else {
            return self.bury((c, count));
        };
        if !sure {
            self.open.get_or_insert(self.shown);
        }
        let mut style = self.base;
        match (c, count) {
            ('~', _) => style.struck = true,
            (_, 1) => style.italic = true,
            (_, 2) => style.weight = Weight::Bold,
            _ => (style.weight, style.italic) = (Weight::Bold, true),
        }
        self.inside(at + count, close, style);
        Some(close + count)
    }

    /// Shows a part of the line in a style of its own.
    fn inside(&mut self, from: usize, to: usize, base: Style) {
        let text = self.text.get(from..to).unwrap_or_default();
        let mut reader = Reader::new(text, base, self.depth + 1);
        reader.read();
        self.shown += reader.shown;
        self.line.append(&reader.line);
    }

    /// Where a bracket is closed. They are all looked for at once: a line may be made of nothing else.
    fn closing(&mut self, open_at: usize) -> Option<usize> {
        let text = self.text;
        self.pairs.get_or_insert_with(|| pairs(text)).get(&open_at).copied()
    }

    /// `[text](address)`, and an image alike.
    fn link(&mut self, bracket: usize) -> Option<usize> {
        if self.is_dead(('[', 1)) || self.depth >= DEEPEST {
            return None;
        }
        let Some(close) = self.closing(bracket) else {
            self.bury::<()>(('!', 1));
            return self.bury(('[', 1));
        };
        if close + 1 >= self.text.len() {
            // An address may follow.
            self.open.get_or_insert(self.shown);
        }
        if !self.text[close + 1..].starts_with('(') {
            return None;
        }
        let Some(end) = self.closing(close + 1) else {
            self.open.get_or_insert(self.shown);
            return None;
        };
        let label = self.text.get(bracket + 1..close).unwrap_or_default();
        let target = self.text.get(close + 2..end).unwrap_or_default();
        let address = target.split_whitespace().next().unwrap_or_default();
        let address = address.trim_start_matches('<').trim_end_matches('>').to_owned();
        if label.is_empty() || label == address {
            self.show_address(&address);
        } else {
            let style = Style { underline: true, colour: BLUE.colour, ..self.base };
            let label = label.len();
            self.inside(bracket + 1, bracket + 1 + label, style);
            let shown = format!(" ({address})");
            self.shown += shown.len();
            self.line.push(DIM, &shown);
        }
        Some(end + 1)
    }

    /// `<https://example.org>`.
    fn address(&mut self, at: usize) -> Option<usize> {
        let rest = self.text.get(at + 1..)?;
        let end = rest.find(|c: char| c == '>' || c == '<' || c.is_whitespace());
        let Some(end) = end else {
            self.open.get_or_insert(self.shown);
            return None;
        };
        let address = rest.get(..end)?;
        if !rest[end..].starts_with('>') || !(address.contains("://") || address.contains('@')) {
            return None;
        }
        let address = address.to_owned();
        self.show_address(&address);
        Some(at + 1 + end + 1)
    }

    fn show_address(&mut self, address: &str) {
        self.shown += address.len();
        self.line.push(Style { underline: true, colour: BLUE.colour, ..self.base }, address);
    }

    fn escaped(&mut self, at: usize) -> Option<usize> {
        let next = self.text.get(at + 1..)?.chars().next().filter(char::is_ascii_punctuation)?;
        let end = at + 1 + next.len_utf8();
        self.show(at + 1, end);
        Some(end)
    }
}

/// How long the run is that ends a mark; what has one form only is counted once.
fn closing_count(c: char, count: usize) -> usize {
    if matches!(c, '`' | '*' | '_' | '~') { count } else { 1 }
}

/// How often a character is there in a row.
fn run(text: &str, at: usize, c: char) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    match c {
        '`' | '*' | '_' | '~' => rest.len() - rest.trim_start_matches(c).len(),
        _ => 1,
    }
}

fn code_end(text: &str, from: usize, count: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += text.get(at..)?.find('`')?;
        let found = run(text, at, '`');
        if found == count {
            return Some(at);
        }
        at += found;
    }
}

/// Where the run begins that closes an emphasis. Code and escaped characters are stepped over. It is not sure when there
/// is code without an end: the end may come, and have taken this run in.
fn emphasis_end(text: &str, from: usize, c: char, count: usize) -> Option<(usize, bool)> {
    let mut sure = true;
    let mut at = from;
    while let Some(found) = text.get(at..)?.find([c, '`', '\\']) {
        at += found;
        let mark = text.get(at..)?.chars().next()?;
        if mark == '\\' {
            at += 1 + text.get(at + 1..)?.chars().next().map_or(0, char::len_utf8);
        } else if mark == '`' {
            let ticks = run(text, at, '`');
            let end = code_end(text, at + ticks, ticks);
            sure &= end.is_some();
            at = end.map_or(at + ticks, |end| end + ticks);
        } else {
            let found = run(text, at, c);
            let spaced = text[..at].chars().next_back().is_none_or(char::is_whitespace);
            let next = text[at + found..].chars().next();
            let glued = c == '_' && next.is_some_and(char::is_alphanumeric);
            let ends_words = next.is_none_or(|next| !next.is_alphanumeric());
            if at > from && !spaced && !glued && (found == count || found > count && ends_words) {
                return Some((at + found - count, sure));
            }
            at += found;
        }
    }
    None
}

/// Where brackets are closed; each kind is counted by itself, and escaped ones are not.
fn pairs(text: &str) -> Pairs {
    let mut pairs = Pairs::new();
    let (mut square, mut round) = (Vec::new(), Vec::new());
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => square.push(at),
            '(' => round.push(at),
            ']' => pairs.extend(square.pop().map(|open| (open, at))),
            ')' => pairs.extend(round.pop().map(|open| (open, at))),
            _ => {}
        }
    }
    pairs
}
