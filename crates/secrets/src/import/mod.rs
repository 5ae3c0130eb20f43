//! Profiles of other programs, read from the text of their files. Nothing is written here, and no error quotes a text.

mod lainclaw;
mod openclaw;
mod time;

pub use lainclaw::lainclaw;
pub use openclaw::openclaw;
use serde_json::{Map, Value};

use crate::error::SecretsError;
use crate::secret::Secret;

fn object(text: &str) -> Result<Map<String, Value>, SecretsError> {
    serde_json::from_str(text).map_err(|error| {
        SecretsError::Import(format!("no JSON object at line {}, column {}", error.line(), error.column()))
    })
}

/// A text that is there and not blank.
fn text(entry: &Map<String, Value>, name: &str) -> Option<String> {
    entry.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn secret(entry: &Map<String, Value>, name: &str) -> Option<Secret> {
    text(entry, name).map(Secret::new)
}

/// A time as a number of milliseconds or as a text.
fn time_of(entry: &Map<String, Value>, name: &str) -> Option<i64> {
    match entry.get(name)? {
        Value::String(text) => time::parse(text),
        #[expect(clippy::cast_possible_truncation, reason = "a time with a fraction of a millisecond")]
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|time| time as i64)),
        _ => None,
    }
}
