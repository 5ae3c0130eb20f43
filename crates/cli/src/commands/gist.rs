//! A tool call in one short line. Pure.

use serde_json::Value;

/// Characters of a line.
const MOST: usize = 100;
/// Arguments that say what a call is about, the most telling first.
const TELLING: [&str; 13] = [
    "command",
    "cmd",
    "path",
    "file",
    "url",
    "query",
    "pattern",
    "task",
    "message",
    "text",
    "name",
    "sessionKey",
    "prompt",
];

/// What a call is about.
pub(crate) fn gist(args: &Value) -> String {
    let Some(fields) = args.as_object().filter(|fields| !fields.is_empty()) else { return String::new() };
    let said = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
    // Some tools do several things: which one is said first.
    let action = fields.get("action").and_then(Value::as_str);
    let on = said.or_else(|| ["ref", "key", "tab", "id"].iter().find_map(|name| fields.get(*name)?.as_str()));
    match (action, said, on) {
        (Some(action), _, Some(on)) => format!("{action} {on}"),
        (Some(action), ..) => action.to_owned(),
        (None, Some(text), _) => text.to_owned(),
        (None, None, _) => args.to_string(),
    }
}

/// A tool and what is said about it, on one line.
pub(crate) fn line_of(tool: &str, about: &str) -> String {
    shortened(&format!("{tool} {about}"), MOST)
}

/// The beginning of a text, as one line.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_by_what_it_is_about() {
        assert_eq!(gist(&json!({"path": "notes.txt", "maxBytes": 7})), "notes.txt");
        assert_eq!(gist(&json!({"cwd": ".", "command": "git status"})), "git status");
        assert_eq!(gist(&json!({"action": "click", "ref": "e3"})), "click e3");
        assert_eq!(gist(&json!({"action": "open", "url": "https://a.example/"})), "open https://a.example/");
        assert_eq!(gist(&json!({"action": "tabs"})), "tabs");
        assert_eq!(gist(&json!({"depth": 2})), r#"{"depth":2}"#);
        assert_eq!((gist(&json!({})), gist(&json!(null))), (String::new(), String::new()));
    }

    #[test]
    fn a_line_is_one_line_and_short() {
        assert_eq!(line_of("exec", "a\n  b"), "exec a b");
        assert_eq!(line_of("time.now", ""), "time.now");
        let long = line_of("read", &"字".repeat(200));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MOST, true));
    }
}
