//! A document with its secrets left out, for showing.
//!
//! The schema says which keys are secret. Where it knows nothing about a key (a channel's settings) the key's
//! name decides; a misspelt key is shown without its value. A whole `${VAR}` is shown: it names a secret and is none.

use serde_json::{Map, Value};
use tidegate_secrets::REDACTED;

use crate::shape::{Node, Shape};
use crate::substitute::is_plain_reference;

/// The document with every secret replaced by a mask.
pub(crate) fn redact(node: &Node, value: &Value) -> Value {
    if node.sensitive {
        return masked(value);
    }
    let node = node.branch_for(value);
    match (&node.shape, value) {
        (Shape::Object { .. } | Shape::Map(_), Value::Object(map)) => {
            let shown = |key: &String, held: &Value| match node.key(key) {
                Some(child) => redact(child, held),
                None if key == "$include" => held.clone(),
                // A misspelt key may be that of a secret.
                None => masked(held),
            };
            Value::Object(map.iter().map(|(key, held)| (key.clone(), shown(key, held))).collect())
        }
        (Shape::List(child), Value::Array(items)) => {
            Value::Array(items.iter().map(|item| redact(child, item)).collect())
        }
        // A text in the place of a section may be a token that belongs one level down.
        (Shape::Object { .. } | Shape::Map(_) | Shape::List(_), _) => masked(value),
        // Free-form settings: nothing but names to go by.
        _ => unknown("", value),
    }
}

/// The same for settings that no schema describes.
pub(crate) fn by_name(settings: &Map<String, Value>) -> Map<String, Value> {
    settings.iter().map(|(key, held)| (key.clone(), unknown(key, held))).collect()
}

fn unknown(key: &str, value: &Value) -> Value {
    if sounds_secret(key) {
        return masked(value);
    }
    match value {
        Value::Object(map) => Value::Object(by_name(map)),
        Value::Array(items) => Value::Array(items.iter().map(|item| unknown(key, item)).collect()),
        Value::String(text) => Value::String(without_password(text)),
        other => other.clone(),
    }
}

fn masked(value: &Value) -> Value {
    match value {
        Value::String(text) if is_plain_reference(text) => value.clone(),
        Value::Array(items) => Value::Array(items.iter().map(masked).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, held)| (key.clone(), masked(held))).collect())
        }
        Value::Null | Value::Bool(_) => value.clone(),
        Value::String(_) | Value::Number(_) => REDACTED.into(),
    }
}

pub(crate) fn sounds_secret(key: &str) -> bool {
    const WORDS: [&str; 12] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "apikey",
        "privatekey",
        "accesskey",
        "signingkey",
        "authorization",
        "webhookurl",
    ];
    let name: String = key.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// `scheme://user:password@host` with the password masked.
fn without_password(text: &str) -> String {
    let masked = || {
        let (scheme, rest) = text.split_once("://")?;
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        let (user_info, host) = authority.rsplit_once('@')?;
        let (user, _) = user_info.split_once(':')?;
        Some(format!("{scheme}://{user}:{REDACTED}@{host}{path}"))
    };
    masked().unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::root;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_by_schema_and_by_name() {
        let document = json!({
            "env": {"vars": {"ANYTHING": "x"}},
            "models": {"providers": {"p": {"apiKey": "sk-1", "apikey": "sk-2", "models": [{"id": "m", "maxTokens": 5}]}}},
            "channels": {"telegram": {"botToken": "1:a", "accounts": [{"app_secret": "s"}], "name": "me", "maxTokens": 7, "url": "https://u:p@h:1/x?y"}},
            "storage": {"postgres": {"url": "postgres://u:p@h/d", "schema": "tidegate"}},
            "misspelt": {"password": {"deep": ["x"]}, "url": "https://u:p@h:1/x?y"},
        });
        let shown = redact(root(), &document);
        let expected = json!({
            "env": {"vars": {"ANYTHING": REDACTED}},
            "models": {"providers": {"p": {"apiKey": REDACTED, "apikey": REDACTED, "models": [{"id": "m", "maxTokens": 5}]}}},
            "channels": {"telegram": {"botToken": REDACTED, "accounts": [{"app_secret": REDACTED}], "name": "me", "maxTokens": REDACTED, "url": format!("https://u:{REDACTED}@h:1/x?y")}},
            "storage": {"postgres": {"url": REDACTED, "schema": "tidegate"}},
            "misspelt": {"password": {"deep": [REDACTED]}, "url": REDACTED},
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_reference_is_shown_and_a_reference_with_a_default_is_not() {
        let document =
            json!({"models": {"providers": {"p": {"apiKey": "${KEY}"}, "q": {"apiKey": "${KEY:-sk-1}"}}}});
        let shown = redact(root(), &document);
        assert_eq!(shown["models"]["providers"]["p"]["apiKey"], "${KEY}");
        assert_eq!(shown["models"]["providers"]["q"]["apiKey"], REDACTED);
    }

    #[test]
    fn a_secret_of_the_wrong_type_is_masked_too() {
        let document =
            json!({"models": {"providers": {"p": {"apiKey": {"id": 4711}}}}, "env": {"vars": ["x"]}});
        let shown = redact(root(), &document).to_string();
        assert!(!shown.contains("4711") && !shown.contains('x'), "{shown}");
    }
}
