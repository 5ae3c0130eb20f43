//! The arguments of a call while they still arrive: as much of an incomplete JSON text as can be known. For showing
//! only; a call runs on arguments that are whole.

use serde_json::{Map, Number, Value};

/// The depth at which our JSON parser refuses a text.
const DEEPEST: usize = 128;

/// What is known of a JSON text whose end is missing. Open strings, lists and objects are closed; a key, a literal, a
/// number or an escape that was cut in half is left out. A text that no continuation makes JSON is an empty object.
///
/// A number at the very end is taken as it stands, although more digits may follow.
pub fn partial_json(text: &str) -> Value {
    if let Ok(whole) = serde_json::from_str(text) {
        return whole;
    }
    let mut parser = Parser { text, at: 0 };
    match parser.value(DEEPEST) {
        // A whole value that serde refuses has something behind it that does not belong there.
        Err(Invalid) | Ok(Part::Whole(_)) => None,
        Ok(Part::Cut(value)) => value,
    }
    .unwrap_or_else(|| Value::Object(Map::new()))
}

/// No continuation makes this JSON.
struct Invalid;

enum Part<T> {
    Whole(T),
    /// The text ended inside; what is known by then.
    Cut(Option<T>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next byte that is no blank, which stays where it is.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.rest().bytes().next()
    }

    fn value(&mut self, depth: usize) -> Result<Part<Value>, Invalid> {
        match self.peek() {
            None => Ok(Part::Cut(None)),
            Some(b'{' | b'[') if depth == 1 => Err(Invalid),
            Some(b'{') => self.object(depth - 1),
            Some(b'[') => self.list(depth - 1),
            Some(b'"') => Ok(match self.string()? {
                Part::Whole(text) => Part::Whole(Value::String(text)),
                Part::Cut(text) => Part::Cut(text.map(Value::String)),
            }),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.literal(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Part<Value>, Invalid> {
        self.at += 1;
        let mut map = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Part::Whole(Value::Object(map)));
        }
        loop {
            let cut = |map| Ok(Part::Cut(Some(Value::Object(map))));
            match self.peek() {
                None => return cut(map),
                Some(b'"') => {}
                Some(_) => return Err(Invalid),
            }
            let Part::Whole(key) = self.string()? else { return cut(map) };
            match self.peek() {
                None => return cut(map),
                Some(b':') => self.at += 1,
                Some(_) => return Err(Invalid),
            }
            match self.value(depth)? {
                Part::Whole(value) => map.insert(key, value),
                Part::Cut(value) => {
                    map.extend(value.map(|value| (key, value)));
                    return cut(map);
                }
            };
            match self.peek() {
                None => return cut(map),
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Part::Whole(Value::Object(map)));
                }
                Some(_) => return Err(Invalid),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Part<Value>, Invalid> {
        self.at += 1;
        let mut list = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Part::Whole(Value::Array(list)));
        }
        loop {
            match self.value(depth)? {
                Part::Whole(value) => list.push(value),
                Part::Cut(value) => {
                    list.extend(value);
                    return Ok(Part::Cut(Some(Value::Array(list))));
                }
            }
            match self.peek() {
                None => return Ok(Part::Cut(Some(Value::Array(list)))),
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Part::Whole(Value::Array(list)));
                }
                Some(_) => return Err(Invalid),
            }
        }
    }

    fn string(&mut self) -> Result<Part<String>, Invalid> {
        let quoted = self.rest();
        let bytes = quoted.as_bytes();
        let mut end = 1;
        while end < bytes.len() {
            match bytes[end] {
                b'"' => {
                    self.at += end + 1;
                    let text = serde_json::from_str(&quoted[..=end]).map_err(|_| Invalid)?;
                    return Ok(Part::Whole(text));
                }
                b'\\' => match escape_length(&bytes[end..]) {
                    Some(length) => end += length,
                    None => break,
                },
                _ => end += 1,
            }
        }
        self.at = self.text.len();
        let closed = format!("{}\"", &quoted[..end]);
        serde_json::from_str(&closed).map(Some).map(Part::Cut).map_err(|_| Invalid)
    }

    fn number(&mut self) -> Result<Part<Value>, Invalid> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| b"+-.0123456789eE".contains(byte)).count();
        self.at += length;
        let number = serde_json::from_str::<Number>(&rest[..length]).ok().map(Value::Number);
        if length == rest.len() {
            return Ok(Part::Cut(number));
        }
        number.map(Part::Whole).ok_or(Invalid)
    }

    fn literal(&mut self) -> Result<Part<Value>, Invalid> {
        let rest = self.rest();
        for (word, value) in
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
        {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(Part::Whole(value));
            }
            if word.starts_with(rest) {
                self.at = self.text.len();
                return Ok(Part::Cut(None));
            }
        }
        Err(Invalid)
    }
}

/// How many bytes the escape at the start has; `None` when its end is missing. Half a surrogate pair is half an escape.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    if *bytes.get(1)? != b'u' {
        return Some(2);
    }
    let unit = bytes.get(2..6)?;
    let is_high = matches!(unit, [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
    // A pair is left to serde as a whole; it refuses a half that stands alone.
    let pair = is_high && bytes[6..].iter().zip(b"\\u").all(|(found, wanted)| found == wanted);
    match (pair, bytes.len()) {
        (true, ..12) => None,
        (true, _) => Some(12),
        (false, _) => Some(6),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_open_is_closed_and_what_is_half_is_left_out() {
        for (text, value) in [
            ("", json!({})),
            ("  ", json!({})),
            ("{", json!({})),
            (r#"{"pa"#, json!({})),
            (r#"{"path""#, json!({})),
            (r#"{"path":"#, json!({})),
            (r#"{"path": "#, json!({})),
            (r#"{"path": ""#, json!({"path": ""})),
            (r#"{"path": "src/ma"#, json!({"path": "src/ma"})),
            (r#"{"path": "src/ma", "#, json!({"path": "src/ma"})),
            (r#"{"a": [1, 2"#, json!({"a": [1, 2]})),
            (r#"{"a": [1, {"b": ["x"#, json!({"a": [1, {"b": ["x"]}]})),
            (r#"{"a": tr"#, json!({})),
            (r#"{"a": [true, fal"#, json!({"a": [true]})),
            (r#"{"a": -"#, json!({})),
            (r#"{"a": 1e"#, json!({})),
            (r#"{"a": 1."#, json!({})),
            (r#"{"a": 12"#, json!({"a": 12})),
            (r#"{"a": "x\"#, json!({"a": "x"})),
            (r#"{"a": "x\n"#, json!({"a": "x\n"})),
            (r#"{"a": "x\u00"#, json!({"a": "x"})),
            (r#"{"a": "x\ud83e"#, json!({"a": "x"})),
            (r#"{"a": "x\ud83e\ud"#, json!({"a": "x"})),
            (r#"{"a": "x\ud83e\udd80"#, json!({"a": "x🦀"})),
            (r#"{"a\ud83e"#, json!({})),
            (r#"[1, "two"#, json!([1, "two"])),
        ] {
            assert_eq!(partial_json(text), value, "{text}");
        }
    }

    #[test]
    fn what_cannot_become_json_is_an_empty_object() {
        for text in [
            "}",
            "{]",
            "{a",
            r#"{"a" 1"#,
            r#"{"a": 1 2"#,
            r#"{"a": nope"#,
            "[1,]",
            r#"{"a": 1,}"#,
            r#"{"a": --1, "#,
            r#"{"a": "\x"#,
            r#"{"a": "\ud83e and"#,
            r#"{"a": 1} and more"#,
            "<html>",
            r#"{"a": 01, "#,
        ] {
            assert_eq!(partial_json(text), json!({}), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| partial_json(&"[".repeat(levels));
        assert_ne!(deep(DEEPEST - 1), json!({}));
        assert_eq!(deep(DEEPEST), json!({}));
        assert_eq!(deep(1_000_000), json!({}));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no infinity", |n| n.is_finite()).prop_map(Value::from),
            "(?s).{0,12}".prop_map(Value::from),
            "[\"\\\\\\n\u{1}🦀]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Value> {
        prop::collection::vec((".{0,4}", any_json()), 0..5)
            .prop_map(|entries| Value::Object(entries.into_iter().collect()))
    }

    /// Escapes everything outside ASCII, so that surrogate pairs are cut as well.
    fn escaped(text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            if c.is_ascii() {
                out.push(c);
            } else {
                out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
        out
    }

    /// Whether the part says nothing that the whole does not. A number at the cut may lack digits.
    fn is_part_of(part: &Value, whole: &Value) -> bool {
        match (part, whole) {
            (Value::Object(part), Value::Object(whole)) => {
                part.iter().all(|(key, value)| whole.get(key).is_some_and(|whole| is_part_of(value, whole)))
            }
            (Value::Array(part), Value::Array(whole)) => {
                part.len() <= whole.len()
                    && part.iter().zip(whole).all(|(part, whole)| is_part_of(part, whole))
            }
            (Value::String(part), Value::String(whole)) => whole.starts_with(part.as_str()),
            (Value::Number(_), Value::Number(_)) => true,
            _ => part == whole,
        }
    }

    proptest! {
        #[test]
        fn a_prefix_says_a_part_of_the_whole(value in any_object(), pretty in any::<bool>(), ascii in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = if ascii { escaped(&text.unwrap()) } else { text.unwrap() };
            let whole: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(partial_json(&text), whole.clone());
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                let part = partial_json(&text[..end]);
                prop_assert!(is_part_of(&part, &whole), "{} gives {part}", &text[..end]);
            }
        }

        #[test]
        fn any_text_gives_a_value(text in "[{}\\[\\]\",:\\\\ utfn0-9eE.\\-a🦀]{0,40}") {
            let value = partial_json(&text);
            let is_json = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert!(is_json || !value.is_null());
        }
    }
}
