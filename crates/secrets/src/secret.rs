//! The one type for secret text.
//!
//! A [`Secret`] owns its bytes and wipes them when it is dropped. The only way to the text is [`Secret::expose`],
//! so a search for that word finds every place where a secret leaves its wrapper.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// What stands in the place of a secret wherever one would be shown.
pub const REDACTED: &str = "[redacted]";

/// The JSON Schema keyword that marks a value which must not be shown.
pub const SENSITIVE_MARK: &str = "x-sensitive";

/// Text that cannot be printed and is wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret itself, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The mask has one length, so padding tells nothing about the text.
        f.pad(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A type error of `String` quotes the value it met (`invalid type: integer 4711`), which for a secret is
        // a leak: the wrapper says what was expected and nothing more.
        match String::deserialize(deserializer) {
            Ok(text) => Ok(Self::new(text)),
            Err(_) => Err(serde::de::Error::custom("expected a string (the value is secret and not shown)")),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", SENSITIVE_MARK: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "sk-very-private-4711";

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Account {
        key: Secret,
        spare: Option<Secret>,
    }

    fn account() -> Account {
        Account { key: Secret::new(TEXT), spare: Some(Secret::new(TEXT)) }
    }

    #[test]
    fn expose_gives_the_text_back() {
        assert_eq!(Secret::new(TEXT).expose(), TEXT);
    }

    #[test]
    fn no_formatting_path_shows_the_text() {
        let secret = Secret::new(TEXT);
        let shown = [
            format!("{secret}"),
            format!("{secret:?}"),
            format!("{secret:#?}"),
            format!("{secret:>40}"),
            format!("{secret:.3}"),
            format!("{:?}", account()),
            format!("{:#?}", vec![Some(secret.clone())]),
            secret.to_string(),
        ];
        for text in shown {
            assert!(!text.contains("private") && !text.contains("sk-"), "leaked in {text}");
        }
    }

    #[test]
    fn serializing_writes_the_mask() {
        let json = serde_json::to_string(&account()).unwrap();
        assert_eq!(json, r#"{"key":"[redacted]","spare":"[redacted]"}"#);
    }

    #[test]
    fn deserializing_keeps_the_text() {
        let read: Account = serde_json::from_str(&format!(r#"{{"key":"{TEXT}","spare":"{TEXT}"}}"#)).unwrap();
        assert_eq!(read, account());
    }

    #[test]
    fn a_type_error_does_not_quote_the_value() {
        let error = serde_json::from_str::<Account>(r#"{"key":4711}"#).unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
        assert!(!error.contains("4711"), "{error}");
    }

    #[test]
    fn equal_texts_are_equal_secrets() {
        assert_eq!(Secret::new("a"), Secret::from("a".to_owned()));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert!(Secret::default().is_empty());
    }

    #[test]
    fn the_schema_is_a_string_marked_sensitive() {
        let schema = schemars::schema_for!(Account).to_value();
        assert_eq!(schema["properties"]["key"], serde_json::json!({"type": "string", "x-sensitive": true}));
        assert_eq!(schema["properties"]["spare"]["x-sensitive"], true);
    }
}
