//! Bytes to text: the encodings that cost nothing. Everything else is read as UTF-8 and named, so that a reader knows
//! why letters are wrong.

/// A text, and the name of its encoding if that is one we do not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) text: String,
    pub(super) unread: Option<String>,
}

/// What stands for the bytes 0x80 to 0x9f in Windows-1252, which is what pages mean by Latin-1.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The character of a Windows-1252 byte.
pub(super) fn windows(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// Reads bytes by their own mark, else by the header, else by what a page says of itself.
pub(super) fn decode(bytes: &[u8], content_type: Option<&str>, is_html: bool) -> Decoded {
    let plain = |text: String| Decoded { text, unread: None };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => return plain(String::from_utf8_lossy(rest).into_owned()),
        [0xff, 0xfe, rest @ ..] => return plain(wide(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return plain(wide(rest, u16::from_be_bytes)),
        _ => {}
    }
    let named = content_type.and_then(charset_of).or_else(|| is_html.then(|| declared(bytes)).flatten());
    match named.as_deref() {
        Some("iso-8859-1" | "latin1" | "l1" | "windows-1252" | "cp1252" | "x-cp1252") => {
            plain(bytes.iter().map(|byte| windows(*byte)).collect())
        }
        Some("utf-16le" | "utf-16") => plain(wide(bytes, u16::from_le_bytes)),
        Some("utf-16be") => plain(wide(bytes, u16::from_be_bytes)),
        Some("utf-8" | "utf8" | "us-ascii" | "ascii") => plain(String::from_utf8_lossy(bytes).into_owned()),
        // Whatever is valid is not another encoding by accident.
        other => match std::str::from_utf8(bytes) {
            Ok(text) => plain(text.to_owned()),
            Err(_) if other.is_none() && is_html => plain(bytes.iter().map(|byte| windows(*byte)).collect()),
            Err(_) => Decoded {
                text: String::from_utf8_lossy(bytes).into_owned(),
                unread: other.map(str::to_owned),
            },
        },
    }
}

fn wide(bytes: &[u8], join: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| join([pair[0], pair[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The value after `charset=`.
fn charset_of(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, value) = lower.split_once("charset=")?;
    let value = value.trim_start_matches([' ', '"', '\'']);
    let name: String =
        value.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(*c)).take(40).collect();
    (!name.is_empty()).then_some(name)
}

/// What the beginning of a page says of its encoding.
fn declared(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    start.match_indices("<meta").find_map(|(at, _)| charset_of(start[at..].split('>').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], kind: Option<&str>, html: bool) -> String {
        decode(bytes, kind, html).text
    }

    #[test]
    fn a_text_is_read_in_the_encoding_it_names() {
        let latin = b"caf\xe9 \x80";
        assert_eq!(text(latin, Some("text/plain; charset=ISO-8859-1"), false), "café €");
        assert_eq!(text(latin, Some("text/html; Charset=\"windows-1252\""), true), "café €");
        let page = b"<html><head><META http-equiv='content-type' content='text/html; charset=latin1'>caf\xe9";
        assert!(text(page, Some("text/html"), true).ends_with("café"));
        assert!(text(b"<meta charset=\"iso-8859-1\">\xe9", None, true).ends_with('é'));
        assert_eq!(text("grün".as_bytes(), None, true), "grün");
        assert_eq!(text(b"\xff\xfeh\0i\0", None, false), "hi");
        assert_eq!(text(b"\xfe\xff\0h\0i", Some("text/plain; charset=utf-8"), false), "hi");
        assert_eq!(text(b"\xef\xbb\xbfhi", None, false), "hi");
    }

    #[test]
    fn an_encoding_we_do_not_read_is_named() {
        let decoded = decode(b"\x93\xfa\x96\x7b", Some("text/html; charset=Shift_JIS"), true);
        assert_eq!(decoded.unread.as_deref(), Some("shift_jis"));
        // Plain letters are the same in all of them.
        assert_eq!(decode(b"hello", Some("text/html; charset=Shift_JIS"), true).unread, None);
    }

    #[test]
    fn bytes_without_a_name_are_never_a_failure() {
        assert_eq!(text(b"a\xffb", None, false), "a\u{fffd}b");
        assert_eq!(text(b"a\xe9b", None, true), "aéb");
    }
}
