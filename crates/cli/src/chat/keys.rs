//! Bytes from the terminal as keys. Pure: whoever reads says when nothing more came.

/// A key, or a text that was pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// With the control key, as the small letter.
    Ctrl(char),
    Enter,
    /// A line end inside the text: Alt+Enter, Shift+Enter where the terminal tells, Ctrl+J.
    NewLine,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    WordBackspace,
    WordDelete,
    Esc,
    /// What stood between the marks of a paste, as one.
    Paste(String),
}

const ESC: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
/// No sequence is longer.
const LONGEST_SEQUENCE: usize = 32;
/// More than this of a paste is dropped.
const LONGEST_PASTE: usize = 1 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Reads bytes. What is not complete yet waits for the rest of it.
#[derive(Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
    /// The paste that is under way.
    paste: Option<Vec<u8>>,
}

/// What the beginning of the bytes is.
enum Step {
    /// So many bytes are this key, or nothing that is known.
    Done(usize, Option<Key>),
    PasteBegins(usize),
    /// More must come.
    Wait,
}

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        // A paste does not come a key at a time: somebody wants out of one that does not end.
        let mut keys = if bytes == [CTRL_C] { self.end_paste() } else { Vec::new() };
        self.pending.extend_from_slice(bytes);
        while !self.pending.is_empty() {
            if self.paste.is_some() {
                match self.pasted() {
                    Some(text) => keys.push(Key::Paste(text)),
                    None => break,
                }
                continue;
            }
            match step(&self.pending) {
                Step::Done(taken, key) => {
                    self.pending.drain(..taken);
                    keys.extend(key);
                }
                Step::PasteBegins(taken) => {
                    self.pending.drain(..taken);
                    self.paste = Some(Vec::new());
                }
                Step::Wait => break,
            }
        }
        keys
    }

    /// Whether an escape waits for more: after a moment without any, [`Decoder::lapse`] decides. Half a character may
    /// take as long as the network does.
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.first() == Some(&ESC) && self.paste.is_none()
    }

    /// Whether a paste has begun that did not end.
    pub(super) fn is_pasting(&self) -> bool {
        self.paste.is_some()
    }

    /// Nothing more came: an escape alone is the key of that name, a sequence that is not complete is dropped, and what
    /// was pasted so far is all of it.
    pub(super) fn lapse(&mut self) -> Vec<Key> {
        if self.paste.is_some() {
            return self.end_paste();
        }
        if !self.is_waiting() {
            return Vec::new();
        }
        self.pending.clear();
        vec![Key::Esc]
    }

    /// Takes an open paste for ended.
    fn end_paste(&mut self) -> Vec<Key> {
        let Some(mut pasted) = self.paste.take() else { return Vec::new() };
        pasted.append(&mut self.pending);
        vec![Key::Paste(lines(&pasted))]
    }

    /// Takes what belongs to the paste; its text once the end is there.
    fn pasted(&mut self) -> Option<String> {
        let paste = self.paste.as_mut()?;
        let end = self.pending.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        // What may be the beginning of the end stays.
        let kept = (1..PASTE_END.len()).rev().find(|kept| self.pending.ends_with(&PASTE_END[..*kept]));
        let taken = end.unwrap_or(self.pending.len() - kept.unwrap_or(0));
        let room = LONGEST_PASTE.saturating_sub(paste.len());
        paste.extend(self.pending.drain(..taken).take(room));
        end?;
        self.pending.drain(..PASTE_END.len());
        Some(lines(&self.paste.take()?))
    }
}

/// What was pasted, with line ends as we write them.
fn lines(pasted: &[u8]) -> String {
    String::from_utf8_lossy(pasted).replace("\r\n", "\n").replace('\r', "\n")
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [] | [ESC] => Step::Wait,
        [ESC, b'[', rest @ ..] => sequence(rest),
        [ESC, b'O', rest @ ..] => match rest {
            [] => Step::Wait,
            [last, ..] => Step::Done(3, named(*last, Modifier::None)),
        },
        [ESC, ESC, ..] => Step::Done(1, Some(Key::Esc)),
        [ESC, rest @ ..] => match step(rest) {
            Step::Done(taken, key) => Step::Done(taken + 1, key.as_ref().and_then(with_alt)),
            other => other,
        },
        [byte, ..] if *byte < 0x20 || *byte == 0x7f => Step::Done(1, control(*byte)),
        _ => character(bytes),
    }
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' => Key::Enter,
        b'\n' => Key::NewLine,
        b'\t' => Key::Tab,
        0x08 | 0x7f => Key::Backspace,
        0x01..=0x1a => Key::Ctrl(char::from(byte + b'a' - 1)),
        _ => return None,
    })
}

fn with_alt(key: &Key) -> Option<Key> {
    Some(match key {
        Key::Enter => Key::NewLine,
        Key::Backspace => Key::WordBackspace,
        Key::Char('b' | 'B') => Key::WordLeft,
        Key::Char('f' | 'F') => Key::WordRight,
        Key::Char('d' | 'D') => Key::WordDelete,
        _ => return None,
    })
}

/// One character of UTF-8. A byte that cannot be part of one is dropped.
fn character(bytes: &[u8]) -> Step {
    let wanted = match bytes.first() {
        Some(0x00..=0x7f) => 1,
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return Step::Done(1, None),
    };
    let found = bytes.get(..wanted.min(bytes.len())).unwrap_or_default();
    match std::str::from_utf8(found) {
        Ok(text) => Step::Done(wanted, text.chars().next().filter(|c| !c.is_control()).map(Key::Char)),
        Err(error) if error.error_len().is_none() && found.len() < wanted => Step::Wait,
        Err(_) => Step::Done(1, None),
    }
}

/// What follows `ESC [`.
fn sequence(rest: &[u8]) -> Step {
    let Some(end) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        // Something that never ends is not a sequence.
        return if rest.len() > LONGEST_SEQUENCE { Step::Done(rest.len() + 2, None) } else { Step::Wait };
    };
    let (parameters, last) =
        (rest.get(..end).unwrap_or_default(), rest.get(end).copied().unwrap_or_default());
    if !(0x40..=0x7e).contains(&last) {
        // Broken off: what broke it is read by itself.
        return Step::Done(end + 2, None);
    }
    let taken = end + 3;
    let numbers: Vec<u32> = String::from_utf8_lossy(parameters)
        .split(';')
        .map(|number| number.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(0))
        .collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let key = match last {
        b'~' if number(0) == 200 => return Step::PasteBegins(taken),
        // The form in which some terminals tell every key: `27;modifier;code~`, and `code;modifier u`.
        b'~' if number(0) == 27 => coded(number(2), modifier(number(1))),
        b'~' => numbered(number(0), modifier(number(1))),
        b'u' => coded(number(0), modifier(number(1))),
        last => named(last, modifier(number(1))),
    };
    Step::Done(taken, key)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Modifier {
    None,
    Shift,
    /// Alt or control, which move by words.
    Word,
    Ctrl,
}

fn modifier(number: u32) -> Modifier {
    let bits = number.saturating_sub(1);
    if bits & 4 != 0 {
        Modifier::Ctrl
    } else if bits & 2 != 0 {
        Modifier::Word
    } else if bits & 1 != 0 {
        Modifier::Shift
    } else {
        Modifier::None
    }
}

fn named(last: u8, modifier: Modifier) -> Option<Key> {
    let words = matches!(modifier, Modifier::Word | Modifier::Ctrl);
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if words => Key::WordRight,
        b'C' => Key::Right,
        b'D' if words => Key::WordLeft,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        b'M' => Key::Enter,
        _ => return None,
    })
}

fn numbered(number: u32, modifier: Modifier) -> Option<Key> {
    Some(match number {
        1 | 7 => Key::Home,
        4 | 8 => Key::End,
        3 if modifier == Modifier::None => Key::Delete,
        3 => Key::WordDelete,
        _ => return None,
    })
}

fn coded(code: u32, modifier: Modifier) -> Option<Key> {
    let c = char::from_u32(code)?;
    Some(match (c, modifier) {
        ('\r', Modifier::None) => Key::Enter,
        ('\r', _) => Key::NewLine,
        ('\u{1b}', _) => Key::Esc,
        ('\t', Modifier::Shift) => Key::BackTab,
        ('\t', _) => Key::Tab,
        ('\u{7f}' | '\u{8}', Modifier::None | Modifier::Shift) => Key::Backspace,
        ('\u{7f}' | '\u{8}', _) => Key::WordBackspace,
        (c, Modifier::Ctrl) if c.is_ascii_alphabetic() => Key::Ctrl(c.to_ascii_lowercase()),
        (c, Modifier::Word) => return with_alt(&Key::Char(c)),
        (c, Modifier::None | Modifier::Shift) if !c.is_control() => Key::Char(c),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Decoder::default().feed(bytes)
    }

    #[test]
    fn keys_are_known_by_all_their_spellings() {
        for (bytes, key) in [
            ("\x1b[A", Key::Up),
            ("\x1bOA", Key::Up),
            ("\x1b[1;5D", Key::WordLeft),
            ("\x1b[1;3C", Key::WordRight),
            ("\x1bb", Key::WordLeft),
            ("\x1b[H", Key::Home),
            ("\x1b[1~", Key::Home),
            ("\x1bOF", Key::End),
            ("\x1b[3~", Key::Delete),
            ("\x1b[3;5~", Key::WordDelete),
            ("\x1b\x7f", Key::WordBackspace),
            ("\x08", Key::Backspace),
            ("\r", Key::Enter),
            ("\n", Key::NewLine),
            ("\x1b\r", Key::NewLine),
            ("\x1b[13;2u", Key::NewLine),
            ("\x1b[27;2;13~", Key::NewLine),
            ("\x1b[27u", Key::Esc),
            ("\x1b[99;5u", Key::Ctrl('c')),
            ("\x03", Key::Ctrl('c')),
            ("\x1b[Z", Key::BackTab),
            ("你", Key::Char('你')),
        ] {
            assert_eq!(keys(bytes.as_bytes()), [key], "{bytes:?}");
        }
    }

    #[test]
    fn an_escape_alone_is_a_key_once_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.is_waiting());
        assert_eq!(decoder.lapse(), [Key::Esc]);
        assert!(!decoder.is_waiting());
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Esc, Key::Up], "the first one cannot begin a sequence");
    }

    #[test]
    fn a_paste_is_one_thing_whatever_is_in_it() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"a\x1b[200~one\r\ntwo\x1b[A\x1b[20"), [Key::Char('a')]);
        assert!(decoder.is_pasting() && !decoder.is_waiting(), "a moment does not end a paste");
        assert_eq!(decoder.feed(b"1~\r"), [Key::Paste("one\ntwo\x1b[A".to_owned()), Key::Enter]);
    }

    #[test]
    fn a_paste_that_does_not_end_takes_no_keys_for_ever() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b[200~one\rtwo\x1b[2"), []);
        assert_eq!(decoder.lapse(), [Key::Paste("one\ntwo\x1b[2".to_owned())]);
        assert_eq!(decoder.feed(b"a"), [Key::Char('a')]);
        decoder.feed(b"\x1b[200~one");
        assert_eq!(decoder.feed(b"\x03"), [Key::Paste("one".to_owned()), Key::Ctrl('c')]);
        assert_eq!(decoder.feed(b"\x1b[200~a\x03b\x1b[201~"), [Key::Paste("a\x03b".to_owned())]);
    }

    #[test]
    fn half_a_character_waits_for_its_other_half() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(&"你".as_bytes()[..2]), []);
        assert_eq!(decoder.lapse(), []);
        assert_eq!(decoder.feed(&"你".as_bytes()[2..]), [Key::Char('你')]);
    }

    #[test]
    fn what_is_not_known_is_dropped_and_what_follows_is_read() {
        assert_eq!(
            keys(b"\x1b[99;99;99Xa\x1b[1\rb\xffc\x1b[200"),
            [Key::Char('a'), Key::Enter, Key::Char('b'), Key::Char('c')]
        );
    }

    proptest! {
        #[test]
        fn keys_do_not_depend_on_where_the_bytes_were_cut(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "a", "你", "👍", "\x1b[A", "\x1b[1;5C", "\x1bOH", "\x1b[200~", "\x1b[201~", "\x1b", "\r", "\n", "\x1b[3~", "[", "~",
            ]), 0..30),
            size in 1_usize..7,
        ) {
            let bytes = pieces.concat().into_bytes();
            let mut decoder = Decoder::default();
            let cut: Vec<Key> = bytes.chunks(size).flat_map(|chunk| decoder.feed(chunk)).collect();
            prop_assert_eq!(cut, keys(&bytes));
        }

        #[test]
        fn any_bytes_can_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            decoder.lapse();
            decoder.feed(PASTE_END);
            decoder.lapse();
            prop_assert_eq!(decoder.feed(b"z"), [Key::Char('z')]);
        }

        #[test]
        fn text_arrives_as_it_was_typed(text in "\\PC{0,40}") {
            let typed: Vec<Key> = text.chars().filter(|c| !c.is_control()).map(Key::Char).collect();
            prop_assert_eq!(keys(text.as_bytes()), typed);
        }
    }
}
