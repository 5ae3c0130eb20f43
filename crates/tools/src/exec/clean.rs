//! Output of programs made plain: what moves, hides or colours text goes, as it comes in pieces. Pure.
//!
//! Kept are printable characters, tabs and line ends. Escape sequences go as a whole, also when they come in pieces; what is
//! not UTF-8 becomes U+FFFD. A terminal that is asked where its cursor is has to answer, so these questions are counted.

/// An escape sequence that is longer than this is none: a lost `ESC ]` must not swallow the rest of the output.
const LONGEST_SEQUENCE: usize = 4096;

/// Cleans one stream. It remembers what a piece ended in the middle of.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    /// Bytes of a character whose rest has not come yet.
    partial: Vec<u8>,
    /// How long the sequence is that it is in.
    sequence: usize,
    /// What a control sequence has said so far, as far as it matters.
    parameters: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate such as `(`: one more character.
    Charset,
    /// After `ESC [`.
    Control,
    /// After `ESC ]`, `ESC P`, `ESC _`, `ESC ^`, `ESC X`: until BEL or `ESC \`.
    String,
    /// An ESC inside a string: perhaps its end.
    StringEscape,
}

/// What came out of a piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub(crate) text: String,
    /// How often the cursor's position was asked for.
    pub(crate) cursor_queries: usize,
}

impl Cleaner {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Cleaned {
        let mut cleaned = Cleaned { text: String::with_capacity(bytes.len()), cursor_queries: 0 };
        if self.partial.is_empty() {
            self.decode(bytes, &mut cleaned);
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.decode(&joined, &mut cleaned);
        }
        cleaned
    }

    /// What is left when nothing more comes.
    pub(crate) fn finish(&mut self) -> String {
        let cut = !std::mem::take(&mut self.partial).is_empty();
        if cut && self.state == State::Text { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }

    fn decode(&mut self, bytes: &[u8], cleaned: &mut Cleaned) {
        let mut rest = bytes;
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return self.text(text, cleaned),
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            // The split is where UTF-8 ends, so this is the same text without a check that cannot fail.
            self.text(&String::from_utf8_lossy(valid), cleaned);
            let Some(invalid) = error.error_len() else {
                self.partial = after.to_vec();
                return;
            };
            self.character(char::REPLACEMENT_CHARACTER, cleaned);
            rest = &after[invalid..];
        }
    }

    fn text(&mut self, text: &str, cleaned: &mut Cleaned) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                let plain = rest.find(|c: char| !is_kept(c)).unwrap_or(rest.len());
                cleaned.text.push_str(&rest[..plain]);
                rest = &rest[plain..];
            }
            let mut characters = rest.chars();
            if let Some(character) = characters.next() {
                self.character(character, cleaned);
            }
            rest = characters.as_str();
        }
    }

    fn character(&mut self, c: char, cleaned: &mut Cleaned) {
        if self.state != State::Text {
            self.sequence += 1;
            if self.sequence > LONGEST_SEQUENCE {
                self.state = State::Text;
            }
        }
        self.state = match (self.state, c) {
            (State::Text, '\x1b') => self.begin(),
            (State::Text, c) => {
                if is_kept(c) {
                    cleaned.text.push(c);
                }
                State::Text
            }
            (State::String, '\x07') | (State::StringEscape, '\\') => State::Text,
            (State::String, '\x1b') => State::StringEscape,
            (State::String, _) => State::String,
            // Any other ESC cancels the string and begins anew.
            (State::StringEscape | State::Escape, c) => self.escape(c),
            (_, '\x1b') => self.begin(),
            (State::Charset, _) => State::Text,
            (State::Control, c) => self.control(c, cleaned),
        };
    }

    fn begin(&mut self) -> State {
        self.sequence = 0;
        self.parameters.clear();
        State::Escape
    }

    fn escape(&mut self, c: char) -> State {
        match c {
            '[' => {
                self.parameters.clear();
                State::Control
            }
            ']' | 'P' | '_' | '^' | 'X' => State::String,
            ' '..='/' => State::Charset,
            '\x1b' => State::Escape,
            _ => State::Text,
        }
    }

    fn control(&mut self, c: char, cleaned: &mut Cleaned) -> State {
        match c {
            '@'..='~' => {
                let asked = c == 'n' && matches!(self.parameters.as_str(), "6" | "?6");
                cleaned.cursor_queries += usize::from(asked);
                State::Text
            }
            ' '..='?' => {
                if self.parameters.len() < 8 {
                    self.parameters.push(c);
                }
                State::Control
            }
            // Anything else has no place in a control sequence: it is over, and so is this character if it hides.
            c => {
                if is_kept(c) {
                    cleaned.text.push(c);
                }
                State::Text
            }
        }
    }
}

/// Whether a character is text: not a control character and none that only steers how others are shown.
pub(crate) fn is_kept(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | ' '..='~' => true,
        c if c.is_control() => false,
        c => !is_format(c),
    }
}

/// Characters of the category "format": directions, joiners, invisible operators, tags.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> String {
        let mut cleaner = Cleaner::default();
        let mut text = cleaner.push(bytes).text;
        text.push_str(&cleaner.finish());
        text
    }

    #[test]
    fn what_colours_moves_or_hides_goes_and_text_stays() {
        let table: [(&[u8], &str); 14] = [
            (b"plain\ttext\r\n", "plain\ttext\r\n"),
            (b"\x1b[1;31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1bPq#0\x1b\\sixel", "sixel"),
            (b"\x1b(Bcharset", "charset"),
            (b"\x1b=keypad", "keypad"),
            (b"a\x00b\x08c\x7fd", "abcd"),
            ("a\u{202e}b\u{200b}c\u{feff}".as_bytes(), "abc"),
            ("c1 \u{9b}31m".as_bytes(), "c1 31m"),
            (b"bad \xff\xfe utf", "bad \u{fffd}\u{fffd} utf"),
            (b"cut \xe2\x82", "cut \u{fffd}"),
            ("é€😀".as_bytes(), "é€😀"),
            (b"\x1b[31", ""),
        ];
        for (bytes, expected) in table {
            assert_eq!(whole(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_string_that_never_ends_does_not_swallow_the_rest() {
        let mut bytes = b"\x1b]0;".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 10_000));
        bytes.extend_from_slice(b"the end");
        assert!(whole(&bytes).ends_with("the end"));
    }

    #[test]
    fn questions_for_the_cursor_are_counted_and_go() {
        let mut cleaner = Cleaner::default();
        let cleaned = cleaner.push(b"a\x1b[6nb\x1b[?6nc\x1b[5n\x1b[16n");
        assert_eq!(cleaned, Cleaned { text: "abc".into(), cursor_queries: 2 });
        assert_eq!(cleaner.push(b"\x1b[").cursor_queries, 0);
        assert_eq!(cleaner.push(b"6n").cursor_queries, 1);
    }

    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<Vec<u8>>(),
            Just(b"\x1b[".to_vec()),
            Just(b"\x1b]".to_vec()),
            Just(b"\x1b".to_vec()),
            Just(b"6n\x07\\".to_vec()),
            Just("é😀\u{202e}".as_bytes().to_vec()),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn how_output_is_cut_into_pieces_makes_no_difference(bytes in noise(), size in 1_usize..5) {
            let mut cleaner = Cleaner::default();
            let mut text: String = bytes.chunks(size).map(|piece| cleaner.push(piece).text).collect();
            text.push_str(&cleaner.finish());
            prop_assert_eq!(text, whole(&bytes));
        }

        #[test]
        fn nothing_that_steers_a_terminal_is_left(bytes in noise()) {
            prop_assert!(whole(&bytes).chars().all(is_kept));
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~\\n\\té😀]{0,200}") {
            prop_assert_eq!(whole(text.as_bytes()), text);
        }
    }
}
