//! Texts made comparable: models write plain quotes, dashes and spaces where a file has others, and leave out spaces at
//! the ends of lines. Every byte of a folded text knows where it came from.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

/// A folded text.
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte, where the piece of the source begins and ends that it came from.
    sources: Vec<(u32, u32)>,
}

impl Folded {
    /// Folds a text, line by line.
    pub(super) fn of(text: &str) -> Self {
        let mut folded = Self { text: String::with_capacity(text.len()), sources: Vec::new() };
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let body = line.strip_suffix('\n').unwrap_or(line);
            folded.push_line(body.trim_end(), start);
            if body.len() < line.len() {
                folded.push('\n', start + body.len(), start + line.len());
            }
            start += line.len();
        }
        folded
    }

    /// The piece of the source that a piece of the folded text came from. Nothing when the piece begins or ends inside
    /// a character that was folded to several.
    pub(super) fn source(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (first, last) = (self.sources[start], self.sources[end - 1]);
        let inside_first = start > 0 && self.sources[start - 1] == first;
        let inside_last = self.sources.get(end) == Some(&last);
        (!inside_first && !inside_last).then_some((first.0 as usize, last.1 as usize))
    }

    fn push_line(&mut self, line: &str, offset: usize) {
        let mut chars = line.char_indices().peekable();
        while let Some((start, _)) = chars.next() {
            // A letter and the marks on it are one piece.
            while chars.next_if(|(_, c)| canonical_combining_class(*c) != 0).is_some() {}
            let end = chars.peek().map_or(line.len(), |(next, _)| *next);
            for c in line[start..end].nfkc() {
                self.push(plain(c), offset + start, offset + end);
            }
        }
    }

    fn push(&mut self, c: char, start: usize, end: usize) {
        self.text.push(c);
        let source = (u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX));
        self.sources.resize(self.text.len(), source);
    }
}

/// One line folded, for comparing only.
pub(super) fn line(text: &str) -> String {
    text.trim().nfkc().map(plain).collect()
}

fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{00A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        other => other,
    }
}
