//! A value typed on a command line or in a chat, as JSON.
//!
//! `true`, `12`, `{"a":1}` and `"quoted"` are what they look like; everything else is the text itself, so that
//! nobody has to quote twice. Owns no keys and no files.

use serde_json::{Number, Value};

/// A typed value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("Missing value.")]
    Missing,
    #[error("Invalid JSON: SyntaxError: {0}")]
    InvalidJson(String),
}

impl ValueError {
    pub fn code(&self) -> &'static str {
        crate::problem::code::VALUE
    }
}

/// Reads what a person typed as the value of a key.
pub fn parse_value(typed: &str) -> Result<Value, ValueError> {
    let text = typed.trim();
    match text {
        "" => return Err(ValueError::Missing),
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        "null" => return Ok(Value::Null),
        _ => {}
    }
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|error| ValueError::InvalidJson(error.to_string()));
    }
    if let Some(number) = plain_number(text) {
        return Ok(Value::Number(number));
    }
    Ok(Value::String(unquoted(text)))
}

/// `-12` and `1.5`, and no other spelling: a phone number (`+49…`), a version (`5.`) or `1e3` stay text.
fn plain_number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || fraction.is_some_and(|part| !all_digits(part)) {
        return None;
    }
    if fraction.is_none() {
        if let Ok(number) = text.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = text.parse::<i64>() {
            return Some(number.into());
        }
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

/// The inside of a quoted text; a text that is not quoted on both sides stays as it is.
fn unquoted(text: &str) -> String {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return match serde_json::from_str::<String>(text) {
                Ok(decoded) if quote == '"' => decoded,
                _ => inner.to_owned(),
            };
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_looks_like_json_is_json_and_the_rest_is_text() {
        let cases = [
            ("  true ", json!(true)),
            ("-7", json!(-7)),
            ("1.5", json!(1.5)),
            ("-", json!("-")),
            (".5", json!(".5")),
            ("+491234", json!("+491234")),
            ("[1, 2]", json!([1, 2])),
            ("'single'", json!("single")),
            ("\"open", json!("\"open")),
            ("provider/model-1", json!("provider/model-1")),
        ];
        for (typed, expected) in cases {
            assert_eq!(parse_value(typed), Ok(expected), "{typed}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_never_panics(typed in "\\PC*") {
            let _ = parse_value(&typed);
        }

        #[test]
        fn a_json_document_comes_back_as_it_is(number: i64, text in "[a-z]{0,8}") {
            let value = json!({ "n": number, "t": [text] });
            proptest::prop_assert_eq!(parse_value(&value.to_string()), Ok(value));
        }
    }
}
