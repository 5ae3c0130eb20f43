//! Keys as a terminal sends them: tokens such as `C-c`, `M-x`, `S-Tab` and `C-Up` to bytes. Pure.

/// Modifiers held with a key, as xterm counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    shift: bool,
    alt: bool,
    control: bool,
}

impl Held {
    fn any(self) -> bool {
        self.shift || self.alt || self.control
    }

    /// The number that stands in a sequence: one more than the sum of shift 1, alt 2, control 4.
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.control)
    }
}

/// The bytes of these keys one after the other, or the first token that means nothing.
pub(crate) fn encode(tokens: &[String]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for token in tokens {
        bytes.extend(key(token).ok_or_else(|| token.clone())?);
    }
    Ok(bytes)
}

/// The bytes of `["1b", "5b", "41"]` or `["1b5b41"]`; `0x` before a pair is fine.
pub(crate) fn from_hex(pieces: &[String]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let digits = piece.trim().trim_start_matches("0x");
        let pairs = digits.as_bytes().chunks(2);
        for pair in pairs {
            let byte = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            let byte = byte.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
            bytes.push(byte.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(|| piece.clone())?);
        }
    }
    Ok(bytes)
}

fn key(token: &str) -> Option<Vec<u8>> {
    if let Some(letter) = token.strip_prefix('^').filter(|rest| rest.chars().count() == 1) {
        return control(letter.chars().next()?).map(|byte| vec![byte]);
    }
    let (held, name) = modifiers(token);
    if let Some(bytes) = named(name, held) {
        return Some(bytes);
    }
    let mut characters = name.chars();
    let character = characters.next()?;
    if characters.next().is_some() {
        return None;
    }
    character_key(character, held)
}

/// `C-M-x` to what is held and `x`. A lone `-` after a modifier is the key itself.
fn modifiers(token: &str) -> (Held, &str) {
    let mut held = Held::default();
    let mut rest = token;
    while let Some((modifier, after)) = rest.split_once('-').filter(|(_, after)| !after.is_empty()) {
        match modifier {
            "C" | "c" | "Ctrl" | "ctrl" => held.control = true,
            "M" | "m" | "Alt" | "alt" => held.alt = true,
            "S" | "s" | "Shift" | "shift" => held.shift = true,
            _ => break,
        }
        rest = after;
    }
    (held, rest)
}

fn character_key(character: char, held: Held) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if held.alt {
        bytes.push(0x1b);
    }
    if held.control {
        bytes.push(control(character)?);
    } else if held.shift {
        bytes.extend(character.to_uppercase().to_string().bytes());
    } else {
        bytes.extend(character.to_string().bytes());
    }
    Some(bytes)
}

/// What a terminal sends for a letter or sign with Control.
fn control(character: char) -> Option<u8> {
    match character.to_ascii_lowercase() {
        letter @ 'a'..='z' => Some(letter as u8 - b'a' + 1),
        '@' | ' ' | '2' => Some(0x00),
        '[' | '3' => Some(0x1b),
        '\\' | '4' => Some(0x1c),
        ']' | '5' => Some(0x1d),
        '^' | '6' => Some(0x1e),
        '_' | '-' | '/' | '7' => Some(0x1f),
        '?' | '8' => Some(0x7f),
        _ => None,
    }
}

fn named(name: &str, held: Held) -> Option<Vec<u8>> {
    let lower = name.to_ascii_lowercase();
    if let Some(bytes) = plain(&lower, held) {
        return Some(bytes);
    }
    if let Some(letter) = lettered(&lower) {
        // Without a modifier F1 to F4 have a shorter form than the rest of this family.
        let text = match (held.any(), matches!(letter, 'P'..='S')) {
            (false, true) => format!("\x1bO{letter}"),
            (false, false) => format!("\x1b[{letter}"),
            (true, _) => format!("\x1b[1;{}{letter}", held.number()),
        };
        return Some(text.into_bytes());
    }
    let number = numbered(&lower)?;
    let text =
        if held.any() { format!("\x1b[{number};{}~", held.number()) } else { format!("\x1b[{number}~") };
    Some(text.into_bytes())
}

/// Keys that send one byte.
fn plain(lower: &str, held: Held) -> Option<Vec<u8>> {
    let byte = match lower {
        "enter" | "return" | "cr" | "kpenter" => b'\r',
        "tab" if held.shift => return Some(b"\x1b[Z".to_vec()),
        "tab" => b'\t',
        "escape" | "esc" => 0x1b,
        "space" if held.control => 0,
        "space" => b' ',
        "bspace" | "backspace" if held.control => 0x08,
        "bspace" | "backspace" => 0x7f,
        _ => return None,
    };
    Some(if held.alt { vec![0x1b, byte] } else { vec![byte] })
}

/// Keys that end in a letter: `ESC [ A`, with modifiers `ESC [ 1 ; 5 A`.
fn lettered(lower: &str) -> Option<char> {
    Some(match lower {
        "up" => 'A',
        "down" => 'B',
        "right" => 'C',
        "left" => 'D',
        "end" => 'F',
        "home" => 'H',
        "f1" => 'P',
        "f2" => 'Q',
        "f3" => 'R',
        "f4" => 'S',
        _ => return None,
    })
}

/// Keys that end in a tilde: `ESC [ 3 ~`, with modifiers `ESC [ 3 ; 5 ~`.
fn numbered(lower: &str) -> Option<u8> {
    Some(match lower {
        "insert" | "ic" => 2,
        "delete" | "del" | "dc" => 3,
        "pageup" | "pgup" | "ppage" => 5,
        "pagedown" | "pgdn" | "npage" => 6,
        "f5" => 15,
        "f6" => 17,
        "f7" => 18,
        "f8" => 19,
        "f9" => 20,
        "f10" => 21,
        "f11" => 23,
        "f12" => 24,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(token: &str) -> Option<String> {
        key(token).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn recorded_keys_are_sent_as_recorded() {
        let text = include_str!("../../../testkit/fixtures/vectors/keys.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let cases = vectors["keys"].as_array().unwrap();
        assert_eq!(cases.len(), 5);
        for case in cases {
            let tokens: Vec<String> = serde_json::from_value(case["keys"].clone()).unwrap();
            let expected = case["data"].as_str().unwrap();
            assert_eq!(encode(&tokens).unwrap(), expected.as_bytes(), "{tokens:?}");
        }
    }

    #[test]
    fn keys_are_sent_as_xterm_sends_them() {
        let table = [
            ("^c", "\x03"),
            ("^C", "\x03"),
            ("C-@", "\0"),
            ("C-Space", "\0"),
            ("C-?", "\x7f"),
            ("C-[", "\x1b"),
            ("Escape", "\x1b"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("M-Enter", "\x1b\r"),
            ("Space", " "),
            ("BSpace", "\x7f"),
            ("Up", "\x1b[A"),
            ("S-Right", "\x1b[1;2C"),
            ("M-Down", "\x1b[1;3B"),
            ("Home", "\x1b[H"),
            ("End", "\x1b[F"),
            ("PageUp", "\x1b[5~"),
            ("C-Delete", "\x1b[3;5~"),
            ("F1", "\x1bOP"),
            ("C-F1", "\x1b[1;5P"),
            ("F5", "\x1b[15~"),
            ("F12", "\x1b[24~"),
            ("S-F12", "\x1b[24;2~"),
            ("a", "a"),
            ("S-a", "A"),
            ("M-a", "\x1ba"),
            ("C-M-a", "\x1b\x01"),
            ("-", "-"),
            ("^", "^"),
            ("M--", "\x1b-"),
            ("é", "é"),
        ];
        for (token, expected) in table {
            assert_eq!(one(token).as_deref(), Some(expected), "{token}");
        }
    }

    #[test]
    fn a_token_that_means_nothing_is_named() {
        for token in ["", "F13", "Foo", "C-Foo", "C-é", "^cc", "ab", "X-a"] {
            assert_eq!(encode(&[token.to_owned()]), Err(token.to_owned()));
        }
    }

    #[test]
    fn hex_is_read_in_pairs() {
        let hex = |pieces: &[&str]| from_hex(&pieces.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(hex(&["1b", "0x5b", "41"]), Ok(b"\x1b[A".to_vec()));
        assert_eq!(hex(&["1b5b41"]), Ok(b"\x1b[A".to_vec()));
        for wrong in ["1", "zz", "+1", "1b5", "é"] {
            assert_eq!(hex(&[wrong]), Err(wrong.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn no_token_makes_it_panic(token in ".{0,12}") {
            let _ = key(&token);
            let _ = from_hex(&[token]);
        }
    }
}
