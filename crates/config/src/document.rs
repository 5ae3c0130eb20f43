//! Text to data: a config file as strict JSON5.
//!
//! Owns what a file may look like before any key is known: one JSON5 value, no key twice in an object, no
//! `NaN` or `Infinity`, nesting that a reader survives. It never follows an include or looks at a schema.

use std::cell::RefCell;
use std::fmt;

use json5::ErrorCode;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::{Problem, ProblemKind};

/// Deeper nesting is a mistake or an attack; every walker of the document recurses at most this far a file.
pub(crate) const MAX_DEPTH: usize = 64;

/// Reads the text of a config file. All duplicate keys are reported together; a syntax error ends the reading.
pub(crate) fn parse(text: &str) -> Result<Value, Vec<Problem>> {
    let text = without_bom(text);
    if text.trim().is_empty() {
        return Err(vec![Problem::new(
            ProblemKind::Syntax,
            "",
            "the file is empty; write {} for a config without settings, or remove the file",
        )]);
    }
    let problems = RefCell::new(Vec::new());
    let place = Place { at: &At::ROOT, depth: 0, problems: &problems };
    let parsed = place.deserialize(&mut json5::Deserializer::from_str(text));
    // A seed reads one value and stops; the plain reader also refuses what stands after it. It comes second,
    // because it would follow any nesting.
    let parsed = parsed.and_then(|value| json5::from_str::<IgnoredAny>(text).map(|_| value));
    let mut problems = problems.into_inner();
    match parsed {
        Ok(value) if problems.is_empty() => Ok(value),
        Ok(_) => Err(problems),
        Err(error) => {
            problems.push(Problem::new(ProblemKind::Syntax, "", describe(&error)));
            Err(problems)
        }
    }
}

/// The text after a byte order mark, which some editors write and JSON5 does not need.
pub(crate) fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Where a value stands while it is read or walked; renders as `a.b[0].c`.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) const ROOT: At<'static> = At { parent: None, step: Step::Root };

    pub(crate) fn key(&'a self, key: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if first => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Reads one value at a place and notes what is wrong with it there.
#[derive(Clone, Copy)]
struct Place<'a> {
    at: &'a At<'a>,
    depth: usize,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> Place<'a> {
    fn child(self, at: &'a At<'a>) -> Self {
        Self { at, depth: self.depth + 1, problems: self.problems }
    }

    fn note(&self, message: &str) {
        self.problems.borrow_mut().push(Problem::new(ProblemKind::Syntax, self.at.to_string(), message));
    }

    fn check_depth<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth < MAX_DEPTH {
            return Ok(());
        }
        Err(E::custom(format!("objects and lists are nested deeper than {MAX_DEPTH} levels")))
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON5 value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        if let Some(number) = number(value) {
            return Ok(Value::Number(number));
        }
        self.note("Infinity and NaN are not values of a config key; write a finite number");
        Ok(Value::Null)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.child(&self.at.index(items.len())))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let at = self.at.key(&key);
            let child = self.child(&at);
            let value = map.next_value_seed(child)?;
            if entries.contains_key(&key) {
                child.note("the key is there twice in the same object; keep one of them");
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

/// JSON5 has one kind of number: `6e2` and `600.` are the integer 600.
fn number(value: f64) -> Option<Number> {
    /// Every integer up to here has an exact double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "checked: an integer below 2^53")]
        return Some((value as i64).into());
    }
    Number::from_f64(value)
}

/// A reader's error as `line 3, column 7: what is wrong`.
fn describe(error: &json5::Error) -> String {
    let what = match error.code() {
        Some(code) => describe_code(code).to_owned(),
        None => without_position(error),
    };
    match error.position() {
        Some(position) => format!("line {}, column {}: {what}", position.line + 1, position.column + 1),
        None => what,
    }
}

/// The text of an error that has no code, whose own rendering ends with the position.
fn without_position(error: &json5::Error) -> String {
    let text = error.to_string();
    let suffix = error.position().map(|position| format!(" at {position}")).unwrap_or_default();
    text.strip_suffix(&suffix).unwrap_or(&text).to_owned()
}

fn describe_code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::EofParsingArray => "the list that starts here is not closed with ]",
        ErrorCode::EofParsingObject => "the object that starts here is not closed with }",
        // The reader knows no place for these but the bracket around them.
        ErrorCode::EofParsingString => {
            "the file ends inside a string that is in the object or list starting here"
        }
        ErrorCode::EofParsingComment => "the file ends inside a comment; close it with */",
        ErrorCode::EofParsingValue => {
            "the file ends where a value should follow, in the object or list starting here"
        }
        ErrorCode::EofParsingBool
        | ErrorCode::EofParsingEscapeSequence
        | ErrorCode::EofParsingIdentifier
        | ErrorCode::EofParsingNull
        | ErrorCode::EofParsingNumber => "the file ends in the middle of a value",
        ErrorCode::ExpectedClosingBrace => "expected a comma or }",
        ErrorCode::ExpectedClosingBracket => "expected a comma or ]",
        ErrorCode::ExpectedColon => "expected a colon after the key",
        ErrorCode::ExpectedComma => "expected a comma before the next entry",
        ErrorCode::ExpectedComment => "a single / starts nothing; a comment starts with // or /*",
        ErrorCode::ExpectedIdentifier | ErrorCode::InvalidKey => {
            "expected a key; a key with other characters than letters, digits, _ and $ needs quotes"
        }
        ErrorCode::ExpectedValue
        | ErrorCode::ExpectedBool
        | ErrorCode::ExpectedNull
        | ErrorCode::ExpectedString
        | ErrorCode::ExpectedStringOrObject
        | ErrorCode::ExpectedOpeningBrace
        | ErrorCode::ExpectedOpeningBracket => "expected a value; text needs quotes",
        ErrorCode::ExpectedNumber => "expected a number",
        ErrorCode::InvalidBytes => "invalid bytes",
        ErrorCode::InvalidEscapeSequence => "unknown escape in a string; write \\\\ for a backslash",
        ErrorCode::LeadingZero => "a number must not start with 0; put it in quotes if it is text",
        ErrorCode::LineTerminatorInString => "the string is not closed on its line",
        ErrorCode::OverflowParsingNumber => "the number is too large",
        ErrorCode::TrailingCharacters => "there is more text after the end of the document",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(text: &str) -> Vec<String> {
        parse(text).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn json5_in_all_its_forms_is_read() {
        let text = "\u{feff}// head\r\n{ a: 'x', \"b\": [1, 2,], /* c */ c: 0x10, d: .5, e: +1, f: 6e2, g: 5., h: null, }\r\n";
        let expected = json!({"a": "x", "b": [1, 2], "c": 16, "d": 0.5, "e": 1, "f": 600, "g": 5, "h": null});
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn every_duplicate_key_is_named_with_its_path() {
        let found = complaints("{a: {b: 1, b: 2}, list: [{c: 1}, {c: 1, c: 2}]}");
        assert_eq!(
            found,
            [
                "a.b: the key is there twice in the same object; keep one of them",
                "list[1].c: the key is there twice in the same object; keep one of them",
            ]
        );
    }

    #[test]
    fn a_syntax_error_says_line_and_column() {
        let cases = [
            ("{\n  a: 1\n  b: 2\n}", "line 3, column 3: expected a comma before the next entry"),
            ("{\n  a: [1, 2\n", "line 2, column 6: the list that starts here is not closed with ]"),
            ("{a: hello}", "line 1, column 5: expected a value; text needs quotes"),
            ("{a: 1} x", "line 1, column 8: there is more text after the end of the document"),
            ("{a: Infinity}", "a: Infinity and NaN are not values of a config key; write a finite number"),
            ("", "the file is empty; write {} for a config without settings, or remove the file"),
        ];
        for (text, expected) in cases {
            assert_eq!(complaints(text), [expected], "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        for text in ["[".repeat(10_000), "{a:".repeat(10_000), format!("{{}} {}", "[".repeat(10_000))] {
            assert_eq!(complaints(&text).len(), 1);
        }
        let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(&deepest).is_ok());
        assert!(complaints(&format!("[{deepest}]"))[0].contains("nested deeper than 64 levels"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn text_made_of_the_signs_of_json5_is_read_or_refused(text in r#"[\[\]{}:,"'/*\\a0x.\n -]{0,40}"#) {
            let _ = parse(&text);
        }
    }
}
