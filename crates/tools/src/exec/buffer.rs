//! What is kept of output that may be endless: its beginning and its end, with a mark between. Pure.

use std::collections::VecDeque;

/// Keeps the beginning and the end of a text within a number of bytes.
#[derive(Debug)]
pub(crate) struct Ends {
    head: String,
    tail: Tail,
    half: usize,
}

/// Keeps the newest part of a text, and knows where in the whole it begins.
#[derive(Debug)]
pub(crate) struct Tail {
    pieces: VecDeque<String>,
    kept: usize,
    /// Where the kept part begins, in bytes of the whole.
    begins: u64,
    cap: usize,
}

/// Pieces are joined up to this size: a program that writes byte by byte must not make a million of them.
const PIECE: usize = 8 * 1024;

impl Ends {
    pub(crate) fn new(cap: usize) -> Self {
        let half = cap / 2;
        Self { head: String::new(), tail: Tail::new(cap - half), half }
    }

    pub(crate) fn push(&mut self, text: &str) {
        // Once anything is in the tail the head is closed, even if a narrower character would still fit.
        let room = if self.tail.end() == 0 { self.half.saturating_sub(self.head.len()) } else { 0 };
        let cut = floor(text, room);
        self.head.push_str(&text[..cut]);
        self.tail.push(&text[cut..]);
    }

    /// The text in at most so many bytes, with a mark, not counted, where something was left out; and whether there is one.
    pub(crate) fn within(&self, cap: usize) -> (String, bool) {
        let tail = self.tail.text();
        let mut left_out = self.tail.begins;
        let (mut head, mut end) = (self.head.as_str(), tail.as_str());
        if head.len() + end.len() > cap {
            let both = head.len() + end.len();
            let half = cap / 2;
            let for_head = floor(head, half.max(cap.saturating_sub(end.len())));
            head = &head[..for_head];
            let from = end.len().saturating_sub(cap - head.len().min(cap));
            end = &end[ceiling(end, from)..];
            left_out += (both - head.len() - end.len()) as u64;
        }
        if left_out == 0 {
            return (format!("{head}{end}"), false);
        }
        (format!("{head}\n{}\n{end}", left_out_mark(left_out)), true)
    }

    /// How many bytes are kept.
    pub(crate) fn kept(&self) -> usize {
        self.head.len() + self.tail.kept
    }
}

impl Tail {
    pub(crate) fn new(cap: usize) -> Self {
        Self { pieces: VecDeque::new(), kept: 0, begins: 0, cap }
    }

    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.pieces.back_mut().filter(|last| last.len() + text.len() <= PIECE) {
            Some(last) => last.push_str(text),
            None => self.pieces.push_back(text.to_owned()),
        }
        self.kept += text.len();
        while self.kept > self.cap {
            let Some(first) = self.pieces.front_mut() else { return };
            let over = self.kept - self.cap;
            let gone = if over >= first.len() {
                self.pieces.pop_front().map_or(0, |piece| piece.len())
            } else {
                let cut = ceiling(first, over);
                first.drain(..cut);
                cut
            };
            self.kept -= gone;
            self.begins += gone as u64;
        }
    }

    /// Where the whole text ends so far, in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.begins + self.kept as u64
    }

    pub(crate) fn begins(&self) -> u64 {
        self.begins
    }

    pub(crate) fn text(&self) -> String {
        self.pieces.iter().map(String::as_str).collect()
    }

    /// What came after this place of the whole; with how much of it is already gone.
    pub(crate) fn since(&self, place: u64) -> (String, u64) {
        let text = self.text();
        let gone = self.begins.saturating_sub(place);
        let from = usize::try_from(place.saturating_sub(self.begins)).unwrap_or(text.len()).min(text.len());
        (text[ceiling(&text, from)..].to_owned(), gone)
    }
}

/// `… 12.3 MB left out …`
pub(crate) fn left_out_mark(bytes: u64) -> String {
    format!("… {} left out …", size(bytes))
}

fn size(bytes: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, (bytes % unit) * 10 / unit);
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", tenths(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", tenths(1_000_000)),
        _ => format!("{} GB", tenths(1_000_000_000)),
    }
}

/// The last character boundary that is not after this byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first character boundary that is not before this byte.
fn ceiling(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(cap: usize, text: &str) -> (String, bool) {
        let mut ends = Ends::new(cap);
        ends.push(text);
        ends.within(usize::MAX)
    }

    #[test]
    fn a_short_text_is_kept_whole() {
        assert_eq!(ends(10, "0123456789"), ("0123456789".into(), false));
    }

    #[test]
    fn a_long_text_keeps_its_ends_and_says_what_is_missing() {
        assert_eq!(ends(4, "0123456789"), ("01\n… 6 B left out …\n89".into(), true));
    }

    #[test]
    fn a_character_is_never_cut() {
        assert_eq!(ends(4, "ééééé"), ("é\n… 6 B left out …\né".into(), true));
        assert_eq!(ends(5, "ééééé").0, "é\n… 6 B left out …\né");
    }

    #[test]
    fn sizes_are_written_for_people() {
        for (bytes, text) in
            [(999, "999 B"), (1_234, "1.2 KB"), (12_345_678, "12.3 MB"), (2_000_000_000, "2.0 GB")]
        {
            assert_eq!(left_out_mark(bytes), format!("… {text} left out …"));
        }
    }

    #[test]
    fn a_reader_that_was_too_slow_learns_how_much_it_missed() {
        let mut tail = Tail::new(4);
        tail.push("abcd");
        assert_eq!(tail.since(2), ("cd".into(), 0));
        tail.push("efgh");
        assert_eq!(tail.since(2), ("efgh".into(), 2));
        assert_eq!(tail.since(8), (String::new(), 0));
    }

    proptest! {
        #[test]
        fn how_it_came_makes_no_difference(text in ".{0,60}", cap in 0_usize..40, size in 1_usize..7) {
            let mut pieces = Ends::new(cap);
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                pieces.push(&piece.iter().collect::<String>());
            }
            prop_assert_eq!(pieces.within(usize::MAX), ends(cap, &text));
        }

        #[test]
        fn it_never_keeps_more_than_it_may(text in ".{0,200}", cap in 0_usize..60, within in 0_usize..60) {
            let mut ends = Ends::new(cap);
            ends.push(&text);
            prop_assert!(ends.kept() <= cap);
            let (shown, cut) = ends.within(within);
            if cut {
                let mark = shown.split('\n').find(|line| line.starts_with('…') && line.ends_with("left out …"));
                prop_assert!(shown.len() <= cap.min(within) + mark.map_or(0, str::len) + 2);
            } else {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
