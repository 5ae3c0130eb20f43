//! A document against the schema, key by key.
//!
//! Owns the words for a wrong type, a value out of range, an unknown and a missing key. A secret's value is
//! never part of a message.

use serde_json::Value;

use super::suggest;
use super::view::View;
use crate::path::kind_of;
use crate::problem::{Problem, ProblemKind};
use crate::shape::{Node, Shape};

/// Adds every finding about a value to `found`.
pub(super) fn check(node: &Node, view: &View<'_>, found: &mut Vec<Problem>) {
    let node = node.branch_for(view.value);
    match (&node.shape, view.value) {
        (Shape::Object { keys, required }, Value::Object(map)) => {
            for (key, child) in view.entries() {
                if let Some(child_node) = node.key(key) {
                    check(child_node, &child, found);
                    continue;
                }
                let siblings = keys.iter().map(|(name, _)| name.as_str());
                let meant = suggest::for_key(&view.path, key, siblings);
                found
                    .push(Problem::new(ProblemKind::UnknownKey, child.path, "unknown key").suggesting(meant));
            }
            let missing = required.iter().filter(|key| !map.contains_key(*key));
            found.extend(missing.map(|key| {
                let message = format!("required key is missing; it takes {}", expected_by(node.key(key)));
                Problem::new(ProblemKind::Required, view.path_of(key), message)
            }));
        }
        (Shape::Map(child_node), Value::Object(_)) => {
            view.entries().for_each(|(_, child)| check(child_node, &child, found));
        }
        (Shape::List(child_node), Value::Array(_)) => {
            view.items().for_each(|item| check(child_node, &item, found));
        }
        (Shape::Open, Value::Object(_)) | (Shape::Boolean, Value::Bool(_)) => {}
        (Shape::Text { not_empty, format }, Value::String(text)) => {
            let wrong_form = format.is_some_and(|format| !(format.accepts)(text));
            if wrong_form || (*not_empty && text.is_empty()) {
                found.push(mismatch(node, view));
            }
        }
        (Shape::Integer { min, max }, Value::Number(number)) => {
            let fits = number.as_i64().is_some_and(|number| (*min..=*max).contains(&number));
            if !fits {
                found.push(mismatch(node, view));
            }
        }
        (Shape::Number { min, max }, Value::Number(number)) => {
            let fits = number.as_f64().is_some_and(|number| {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            });
            if !fits {
                found.push(mismatch(node, view));
            }
        }
        (Shape::Choice(choices), Value::String(text)) => {
            let values = || choices.iter().map(|choice| choice.value.as_str());
            if !values().any(|value| value == text) {
                found.push(mismatch(node, view).suggesting(suggest::nearest(text, values())));
            }
        }
        _ => found.push(mismatch(node, view)),
    }
}

fn mismatch(node: &Node, view: &View<'_>) -> Problem {
    let received = if node.sensitive {
        format!("{} (the value is secret and not shown)", kind_of(view.value))
    } else if view.value.is_string() && holds_others(node) {
        // A text in the place of a section: perhaps a token that belongs one level down.
        kind_of(view.value).to_owned()
    } else {
        view.shown()
    };
    let hint = match (&node.shape, view.value) {
        (_, Value::Null) => "; remove the key to use its default",
        (Shape::Integer { .. } | Shape::Number { .. } | Shape::Boolean, Value::String(_))
            if view.is_substituted() =>
        {
            "; a variable is always text, so it cannot be used here"
        }
        (Shape::Integer { .. } | Shape::Number { .. }, Value::String(text))
            if text.parse::<f64>().is_ok() =>
        {
            "; write it without quotes"
        }
        (Shape::Boolean, Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            "; write it without quotes"
        }
        _ => "",
    };
    view.problem(format!("expected {}, got {received}{hint}", expected(node)))
}

/// Whether the place is for keys or elements, not for one value.
fn holds_others(node: &Node) -> bool {
    !matches!(
        node.shape,
        Shape::Text { .. } | Shape::Integer { .. } | Shape::Number { .. } | Shape::Boolean | Shape::Choice(_)
    )
}

fn expected_by(node: Option<&Node>) -> String {
    node.map_or_else(|| "a value".to_owned(), expected)
}

/// What a key takes, in words.
pub(super) fn expected(node: &Node) -> String {
    match &node.shape {
        Shape::Text { format: Some(format), .. } => format.expected.to_owned(),
        Shape::Text { not_empty: true, .. } => "a string that is not empty".to_owned(),
        Shape::Text { .. } => "a string".to_owned(),
        Shape::Integer { min, max } if *max == i64::from(u32::MAX) => {
            format!("a whole number of at least {min}")
        }
        Shape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Number { min: Some(min), max: Some(max) } => format!("a number from {min} to {max}"),
        Shape::Number { .. } => "a number".to_owned(),
        Shape::Boolean => "true or false".to_owned(),
        Shape::Choice(choices) => {
            let values: Vec<_> = choices.iter().map(|choice| format!("\"{}\"", choice.value)).collect();
            format!("one of {}", values.join(", "))
        }
        Shape::List(_) => "a list".to_owned(),
        Shape::Map(_) | Shape::Object { .. } | Shape::Open => "an object".to_owned(),
        Shape::Either(branches) => branches.iter().map(expected).collect::<Vec<_>>().join(" or "),
        Shape::Unknown => "another value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::root;
    use serde_json::json;

    fn complaints(document: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(root(), &View::new(document, document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_problems_are_found_in_one_pass() {
        let document = json!({
            "gateway": {"prot": 1, "port": 70000, "bind": "loopbak"},
            "agents": {"defaults": {"timeoutSeconds": "600", "model": "x/y"}, "list": [{"name": "no id"}, {"id": "Bad Id", "model": 5}]},
            "logging": null,
            "ui": {"language": "de"},
        });
        assert_eq!(
            complaints(&document),
            [
                r#"gateway.prot: unknown key, did you mean "gateway.port"?"#,
                "gateway.port: expected a whole number from 1 to 65535, got 70000",
                r#"gateway.bind: expected one of "loopback", "lan", got "loopbak", did you mean "loopback"?"#,
                r#"agents.defaults.timeoutSeconds: expected a whole number of at least 1, got "600"; write it without quotes"#,
                "agents.defaults.model: expected an object, got a string",
                "agents.list[0].id: required key is missing; it takes a name of 1 to 64 lower-case letters, digits, - and _, with a letter or digit first",
                r#"agents.list[1].id: expected a name of 1 to 64 lower-case letters, digits, - and _, with a letter or digit first, got "Bad Id""#,
                "agents.list[1].model: expected a string or an object, got 5",
                "logging: expected an object, got null; remove the key to use its default",
                r#"ui.language: expected one of "en", "zh-CN", got "de""#,
            ]
        );
    }

    #[test]
    fn a_secret_is_not_quoted_and_neither_is_a_value_from_the_environment() {
        let source = json!({"models": {"providers": {"p": {"api": "ollama", "apiKey": 4711}}}, "gateway": {"port": "${SECRET}"}});
        let mut resolved = source.clone();
        resolved["gateway"]["port"] = json!("hunter2");
        let mut found = Vec::new();
        check(root(), &View::new(&resolved, &source), &mut found);
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "models.providers.p.apiKey: expected a string, got a number (the value is secret and not shown)",
                r#"gateway.port: expected a whole number from 1 to 65535, got "${SECRET}"; a variable is always text, so it cannot be used here"#,
            ]
        );
    }

    #[test]
    fn a_document_that_is_no_object_is_refused() {
        assert_eq!(complaints(&json!([1])), ["expected an object, got a list"]);
        assert_eq!(complaints(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn a_channel_is_checked_by_name_and_its_settings_are_free_unless_its_connector_exists() {
        let document = json!({"channels": {
            "telegram": {"botToken": "x", "any": [1]}, "telegrm": {}, "slack": true,
            "local": {"inbx": "a", "pollMs": 0, "accounts": {"work": {"enabled": "true"}}},
        }});
        assert_eq!(
            complaints(&document),
            [
                r#"channels.telegrm: unknown key, did you mean "channels.telegram"?"#,
                "channels.slack: expected an object, got true",
                r#"channels.local.inbx: unknown key, did you mean "channels.local.inbox"?"#,
                "channels.local.pollMs: expected a whole number from 10 to 60000, got 0",
                r#"channels.local.accounts.work.enabled: expected true or false, got "true"; write it without quotes"#,
            ]
        );
    }
}
