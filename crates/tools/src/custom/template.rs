//! Texts with `{{name}}` in them, filled from arguments. Pure.
//!
//! A value never becomes more than it was: in a command it stays inside its word, in an address inside its part, in a
//! header inside its line, in JSON inside its place.

use serde_json::{Map, Value};

/// The system takes no longer word.
const LONGEST_WORD: usize = 128 * 1024 - 1;

/// A text with places to fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Name(String),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{{{{` without `}}}}`")]
    Open,
    #[error("{0:?} is no name of an argument")]
    Name(String),
    #[error("the schema has no argument {0:?}")]
    Unknown(String),
}

/// Why arguments cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FillError {
    #[error("{0}: a value that begins with `-` would be read as an option")]
    Dash(String),
    #[error("{0}: a character that cannot be passed on")]
    Character(String),
    #[error("{0}: too long")]
    TooLong(String),
    #[error("{0}: missing")]
    Missing(String),
    #[error("{0}: `.` and `..` would change the path")]
    Dots(String),
}

impl Template {
    /// Reads a text; every name has to be an argument of the schema.
    pub(crate) fn read(text: &str, schema: &Value) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, behind)) = after.split_once("}}") else {
                return Err(TemplateError::Open);
            };
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Name(checked(name.trim(), schema)?));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    pub(crate) fn has_places(&self) -> bool {
        self.names().next().is_some()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Which names it has, for messages.
    pub(super) fn label(&self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }

    /// The text with every value as `spell` writes it; nothing when a value is missing.
    fn fill(&self, args: &Value, spell: impl Fn(&str) -> String) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Name(name) => filled.push_str(&spell(&spelled(value(args, name)?))),
            }
        }
        Some(filled)
    }

    /// One word of a command; nothing when an optional value is missing.
    pub(crate) fn word(&self, args: &Value, schema: &Value) -> Result<Option<String>, FillError> {
        let Some(word) = self.fill(args, str::to_owned) else { return Ok(None) };
        if word.contains('\0') {
            return Err(FillError::Character(self.label()));
        }
        if word.len() > LONGEST_WORD {
            return Err(FillError::TooLong(self.label()));
        }
        let begins_with_value = matches!(self.pieces.first(), Some(Piece::Name(_)));
        let allowed = || self.names().all(|name| allows_dash(schema, name));
        if begins_with_value && word.starts_with('-') && !allowed() {
            return Err(FillError::Dash(self.label()));
        }
        Ok(Some(word))
    }

    /// The value of a header; nothing when an optional value is missing.
    pub(crate) fn header(&self, args: &Value) -> Result<Option<String>, FillError> {
        let Some(line) = self.fill(args, str::to_owned) else { return Ok(None) };
        if line.chars().any(char::is_control) {
            return Err(FillError::Character(self.label()));
        }
        Ok(Some(line))
    }

    /// A part of an address: values can bring no sign that means something there. Missing values are an error for the
    /// caller to weigh.
    pub(crate) fn part(&self, args: &Value) -> Result<String, FillError> {
        self.fill(args, percent_encoded).ok_or_else(|| FillError::Missing(self.label()))
    }

    /// A text inside JSON: a value alone keeps its type; nothing when an optional value is missing.
    fn json(&self, args: &Value) -> Option<Value> {
        match self.pieces.as_slice() {
            [Piece::Name(name)] => value(args, name).cloned(),
            _ => self.fill(args, str::to_owned).map(Value::String),
        }
    }
}

/// JSON with templates for its texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JsonTemplate {
    Text(Template),
    List(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
    Plain(Value),
}

impl JsonTemplate {
    pub(crate) fn read(value: &Value, schema: &Value) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::read(text, schema)?),
            Value::Array(items) => {
                Self::List(items.iter().map(|item| Self::read(item, schema)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Ok((name.clone(), Self::read(value, schema)?));
                Self::Object(fields.iter().map(field).collect::<Result<_, _>>()?)
            }
            other => Self::Plain(other.clone()),
        })
    }

    /// What is missing is left out, with its name if it has one.
    pub(crate) fn fill(&self, args: &Value) -> Option<Value> {
        match self {
            Self::Text(template) => template.json(args),
            Self::List(items) => Some(items.iter().filter_map(|item| item.fill(args)).collect()),
            Self::Object(fields) => {
                let fields =
                    fields.iter().filter_map(|(name, value)| Some((name.clone(), value.fill(args)?)));
                Some(Value::Object(fields.collect::<Map<_, _>>()))
            }
            Self::Plain(value) => Some(value.clone()),
        }
    }
}

fn checked(name: &str, schema: &Value) -> Result<String, TemplateError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(fine) {
        return Err(TemplateError::Name(name.to_owned()));
    }
    match schema["properties"].get(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(TemplateError::Unknown(name.to_owned())),
    }
}

fn value<'a>(args: &'a Value, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

/// Text as it is, everything else as JSON.
fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether the schema says that values of this argument may begin with `-`.
fn allows_dash(schema: &Value, name: &str) -> bool {
    schema["properties"][name]["allowDash"] == Value::Bool(true)
}

/// Everything but letters, figures and `-._~` as `%XX`.
pub(crate) fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": {
            "a": { "type": "string" }, "b": { "type": "string" }, "n": { "type": "integer" },
            "d": { "type": "string", "allowDash": true }
        }})
    }

    fn word(text: &str, args: &Value) -> Result<Option<String>, FillError> {
        Template::read(text, &schema()).unwrap().word(args, &schema())
    }

    #[test]
    fn values_are_filled_into_their_word() {
        let args = json!({ "a": "x y; z", "n": 3, "b": "", "d": "-v" });
        let table = [
            ("plain", Some("plain")),
            ("{{a}}", Some("x y; z")),
            ("--to={{ a }}", Some("--to=x y; z")),
            ("{{a}}/{{n}}", Some("x y; z/3")),
            ("{{b}}", Some("")),
            ("{{d}}", Some("-v")),
            ("", Some("")),
            ("}}{", Some("}}{")),
        ];
        for (text, expected) in table {
            assert_eq!(word(text, &args).unwrap().as_deref(), expected, "{text}");
        }
        assert_eq!(word("--to={{a}}", &json!({})), Ok(None));
        assert_eq!(word("--to={{a}}", &json!({ "a": null })), Ok(None));
        assert_eq!(word("{{a}}", &json!({ "a": ["x", 1] })), Ok(Some("[\"x\",1]".into())));
    }

    #[test]
    fn a_value_cannot_become_an_option() {
        let args = json!({ "a": "-rf", "b": "", "n": -9 });
        assert_eq!(word("{{a}}", &args), Err(FillError::Dash("a".into())));
        assert_eq!(word("{{b}}{{a}}", &args), Err(FillError::Dash("b, a".into())));
        assert_eq!(word("{{n}}", &args), Err(FillError::Dash("n".into())));
        assert_eq!(word("--x={{a}}", &args), Ok(Some("--x=-rf".into())));
        assert_eq!(word("{{a}}", &json!({ "a": "x\0y" })), Err(FillError::Character("a".into())));
        assert_eq!(word("{{a}}", &json!({ "a": "x".repeat(200_000) })), Err(FillError::TooLong("a".into())));
    }

    #[test]
    fn a_text_that_is_no_template_is_named() {
        let read = |text| Template::read(text, &schema()).unwrap_err();
        assert_eq!(read("{{a"), TemplateError::Open);
        assert_eq!(read("{{c}}"), TemplateError::Unknown("c".into()));
        assert_eq!(read("{{a b}}"), TemplateError::Name("a b".into()));
        assert_eq!(read("{{}}"), TemplateError::Name(String::new()));
    }

    #[test]
    fn a_header_stays_one_line() {
        let template = Template::read("v={{a}}", &schema()).unwrap();
        assert_eq!(template.header(&json!({ "a": "x" })), Ok(Some("v=x".into())));
        assert_eq!(template.header(&json!({})), Ok(None));
        for wrong in ["x\r\nHost: y", "x\n", "\u{7f}"] {
            assert_eq!(template.header(&json!({ "a": wrong })), Err(FillError::Character("a".into())));
        }
    }

    #[test]
    fn json_keeps_types_and_leaves_out_what_is_missing() {
        let body = json!({ "q": "{{a}}", "n": "{{n}}", "text": "<{{a}}>", "gone": "{{b}}", "list": ["{{b}}", 1], "k": true });
        let template = JsonTemplate::read(&body, &schema()).unwrap();
        let filled = template.fill(&json!({ "a": "\"},", "n": 3 })).unwrap();
        assert_eq!(filled, json!({ "q": "\"},", "n": 3, "text": "<\"},>", "list": [1], "k": true }));
    }

    proptest! {
        #[test]
        fn no_value_brings_a_sign_into_an_address(text in ".{0,40}") {
            let encoded = percent_encoded(&text);
            prop_assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
        }

        #[test]
        fn a_whole_word_is_exactly_its_value(text in "[^\\x00]{0,40}") {
            let filled = word("{{d}}", &json!({ "d": text.clone() }));
            prop_assert_eq!(filled, Ok(Some(text)));
        }
    }
}
