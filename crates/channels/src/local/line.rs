//! One line of an inbox: what it says, to which conversation it belongs, and its id. Pure.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Who writes when a line does not say.
const DEFAULT_PEER: &str = "main";
/// Ids and peers become keys of an index; a longer one is replaced by its digest.
const MAX_NAME: usize = 200;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) peer: String,
    pub(super) text: String,
    /// The account the writer believes to write to.
    pub(super) account: Option<String>,
}

/// Where a line begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) generation: u64,
    pub(super) offset: u64,
}

impl Position {
    /// The id of a line that brings none. The mark keeps it apart from the ids that people give.
    fn id(self) -> String {
        format!("@{}-{}", self.generation, self.offset)
    }
}

/// Reads a line without its line end; `None` when it says nothing.
pub(super) fn parse(bytes: &[u8], position: Position) -> Option<Line> {
    let marked = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| position.offset == 0);
    let text = String::from_utf8_lossy(marked.unwrap_or(bytes));
    let text = text.strip_suffix('\r').unwrap_or(&text);
    let line = object(text).and_then(|object| from_object(&object, position));
    let line = line.unwrap_or_else(|| Line {
        id: position.id(),
        peer: DEFAULT_PEER.to_owned(),
        text: text.to_owned(),
        account: None,
    });
    (!line.text.trim().is_empty()).then_some(line)
}

fn object(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// An object without a text is not ours to understand: the line is then plain text, and so nothing is lost.
fn from_object(object: &Map<String, Value>, position: Position) -> Option<Line> {
    let field = |name: &str| match object.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let named = |name: &str| field(name).filter(|text| !text.is_empty()).map(bounded);
    Some(Line {
        text: field("input").or_else(|| field("text"))?,
        id: named("requestId").unwrap_or_else(|| position.id()),
        peer: named("sessionKey").unwrap_or_else(|| DEFAULT_PEER.to_owned()),
        account: named("accountId"),
    })
}

fn bounded(name: String) -> String {
    if name.len() <= MAX_NAME {
        return name;
    }
    Sha256::digest(name).iter().fold("sha256-".to_owned(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position { generation: 3, offset }
    }

    fn line(id: &str, peer: &str, text: &str) -> Line {
        Line { id: id.to_owned(), peer: peer.to_owned(), text: text.to_owned(), account: None }
    }

    fn read(bytes: impl AsRef<[u8]>, offset: u64) -> Line {
        parse(bytes.as_ref(), at(offset)).unwrap()
    }

    #[test]
    fn plain_text_is_taken_as_it_is_and_gets_an_id_from_its_place() {
        assert_eq!(read(b"  hello ", 40), line("@3-40", "main", "  hello "));
        assert_eq!(read("你好\r", 0), line("@3-0", "main", "你好"));
        assert_eq!(read(b"[1, 2]", 0), line("@3-0", "main", "[1, 2]"));
    }

    #[test]
    fn an_object_says_its_text_its_conversation_and_its_id() {
        let whole =
            br#"{"input": "hi", "sessionKey": "work", "requestId": "r1", "accountId": "a", "more": [1]}"#;
        let account = Some("a".to_owned());
        assert_eq!(read(whole, 0), Line { account, ..line("r1", "work", "hi") });
        assert_eq!(read(br#"{"text": "hi"}"#, 7), line("@3-7", "main", "hi"));
        assert_eq!(read(br#" {"input": 5, "requestId": 7, "sessionKey": ""}"#, 7), line("7", "main", "5"));
        assert_eq!(read(br#"{"input": "a", "text": "b"}"#, 7), line("@3-7", "main", "a"));
    }

    #[test]
    fn what_looks_like_an_object_and_is_none_is_plain_text() {
        for text in [r#"{"input": "hi""#, "{not json}", r#"{"question": "hi"}"#, r#"{"input": null}"#] {
            assert_eq!(read(text, 1), line("@3-1", "main", text));
        }
    }

    #[test]
    fn a_line_that_says_nothing_is_no_message() {
        for bytes in [&b""[..], b"\r", b" \t ", b"\xef\xbb\xbf", br#"{"input": " "}"#] {
            assert_eq!(parse(bytes, at(0)), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start_of_the_file() {
        assert_eq!(read(b"\xef\xbb\xbf{\"input\": \"hi\"}", 0), line("@3-0", "main", "hi"));
        assert_eq!(read(b"\xef\xbb\xbfhi", 9), line("@3-9", "main", "\u{feff}hi"));
    }

    #[test]
    fn bytes_that_are_no_text_do_not_lose_the_rest() {
        assert_eq!(read(b"caf\xe9 au lait", 0), line("@3-0", "main", "caf\u{fffd} au lait"));
    }

    #[test]
    fn a_name_too_long_for_a_key_keeps_apart_by_its_digest() {
        let long = |last: char| format!(r#"{{"input": "x", "sessionKey": "{}{last}"}}"#, "k".repeat(200));
        let peer = |last: char| read(long(last), 0).peer;
        assert_eq!(peer('a').len(), 71);
        assert_eq!(peer('a'), peer('a'));
        assert_ne!(peer('a'), peer('b'));
    }
}
