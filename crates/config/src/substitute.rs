//! `${VAR}` and `${VAR:-default}` in the strings of a document.
//!
//! Owns the grammar of a reference and nothing else: names are `[A-Z_][A-Z0-9_]*`, `$${VAR}` is the literal text,
//! a value is never expanded again, keys are never touched. Every missing variable is reported, not the first.

use serde_json::Value;

use crate::document::At;
use crate::env::Env;
use crate::problem::{Problem, ProblemKind};

/// One `${…}` in a text.
struct Reference<'t> {
    name: &'t str,
    default: Option<&'t str>,
    /// Bytes of the text, from `${` to `}`.
    length: usize,
}

/// The document with every reference replaced. A text with a missing variable stays as it is written.
pub(crate) fn substitute(value: &Value, env: &Env) -> (Value, Vec<Problem>) {
    let mut missing = Vec::new();
    let resolved = in_value(value, env, &At::ROOT, &mut missing);
    (resolved, missing)
}

fn in_value(value: &Value, env: &Env, at: &At<'_>, missing: &mut Vec<Problem>) -> Value {
    match value {
        Value::String(text) => match in_text(text, env) {
            Ok(text) => Value::String(text),
            Err(names) => {
                missing.extend(names.into_iter().map(|name| missing_variable(name, at)));
                value.clone()
            }
        },
        Value::Array(items) => {
            let resolve = |(index, item)| in_value(item, env, &at.index(index), missing);
            Value::Array(items.iter().enumerate().map(resolve).collect())
        }
        Value::Object(map) => {
            let mut resolve = |item: &Value, key: &str| in_value(item, env, &at.key(key), missing);
            Value::Object(map.iter().map(|(key, item)| (key.clone(), resolve(item, key))).collect())
        }
        other => other.clone(),
    }
}

fn missing_variable(name: &str, at: &At<'_>) -> Problem {
    let message = format!("Missing env var \"{name}\" referenced at config path: {at}");
    Problem::new(ProblemKind::EnvMissing, at.to_string(), message)
}

/// The text with its references replaced, or the names that have no value.
fn in_text<'t>(text: &'t str, env: &Env) -> Result<String, Vec<&'t str>> {
    let mut resolved = String::with_capacity(text.len());
    let mut missing = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        resolved.push_str(&rest[..dollar]);
        rest = &rest[dollar..];
        if let Some(escaped) = reference(&rest[1..]) {
            resolved.push_str(&rest[1..=escaped.length]);
            rest = &rest[1 + escaped.length..];
        } else if let Some(found) = reference(rest) {
            match env.get(found.name).or(found.default) {
                Some(value) => resolved.push_str(value),
                None if missing.contains(&found.name) => {}
                None => missing.push(found.name),
            }
            rest = &rest[found.length..];
        } else {
            resolved.push('$');
            rest = &rest[1..];
        }
    }
    resolved.push_str(rest);
    if missing.is_empty() { Ok(resolved) } else { Err(missing) }
}

/// The reference a text starts with.
fn reference(text: &str) -> Option<Reference<'_>> {
    let body = text.strip_prefix("${")?;
    let name_length = body.bytes().take_while(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_')).count();
    let (name, rest) = body.split_at(name_length);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if rest.starts_with('}') {
        return Some(Reference { name, default: None, length: 3 + name_length });
    }
    let (default, _) = rest.strip_prefix(":-")?.split_once('}')?;
    Some(Reference { name, default: Some(default), length: 5 + name_length + default.len() })
}

/// Whether a text is one reference and nothing else, so that showing it shows no value.
pub(crate) fn is_plain_reference(text: &str) -> bool {
    reference(text).is_some_and(|found| found.default.is_none() && found.length == text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn env() -> Env {
        Env::from_iter([("A", "one"), ("EMPTY", ""), ("DOLLAR", "${A}")])
    }

    #[test]
    fn a_default_stands_in_for_an_unset_or_empty_variable() {
        let cases = [
            ("${A:-x}", "one"),
            ("${NOPE:-x}", "x"),
            ("${EMPTY:-x}", "x"),
            ("${NOPE:-}", ""),
            ("a ${NOPE:-http://h:1/} b", "a http://h:1/ b"),
            ("$${NOPE:-x}", "${NOPE:-x}"),
            ("${NOPE:-${A}", "${A"),
            ("${NOPE-x}", "${NOPE-x}"),
            ("${NOPE:-open", "${NOPE:-open"),
            ("${DOLLAR}", "${A}"),
            ("$", "$"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(in_text(text, &env()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn every_missing_variable_is_reported_with_its_path() {
        let document = json!({"a": ["${ONE}", "${TWO} ${TWO} ${ONE}"], "b": {"c": "${A}"}});
        let (resolved, missing) = substitute(&document, &env());
        let lines: Vec<_> = missing.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            lines,
            [
                "Missing env var \"ONE\" referenced at config path: a[0]",
                "Missing env var \"TWO\" referenced at config path: a[1]",
                "Missing env var \"ONE\" referenced at config path: a[1]",
            ]
        );
        assert_eq!(resolved, json!({"a": ["${ONE}", "${TWO} ${TWO} ${ONE}"], "b": {"c": "one"}}));
    }

    #[test]
    fn only_a_whole_reference_without_default_may_be_shown() {
        assert!(is_plain_reference("${API_KEY}"));
        for text in ["${API_KEY:-sk-1}", "sk-${API_KEY}", "${API_KEY}x", "sk-1", "$${API_KEY}"] {
            assert!(!is_plain_reference(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_a_reference_is_never_touched(text in "\\PC*") {
            prop_assume!(!text.contains("${"));
            prop_assert_eq!(in_text(&text, &env()), Ok(text.clone()));
        }

        #[test]
        fn any_text_is_resolved_or_refused(text in "[$\\{\\}A-Z:a-]{0,24}") {
            let _ = in_text(&text, &env());
        }
    }
}
