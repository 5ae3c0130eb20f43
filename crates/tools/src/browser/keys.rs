//! Names of keys, as a browser wants to be told about them.

use serde_json::{Value, json};

/// The name, the code of the key, and what it types.
const NAMED: [(&str, u32, &str); 15] = [
    ("Enter", 13, "\r"),
    ("Tab", 9, ""),
    ("Escape", 27, ""),
    ("Backspace", 8, ""),
    ("Delete", 46, ""),
    ("ArrowUp", 38, ""),
    ("ArrowDown", 40, ""),
    ("ArrowLeft", 37, ""),
    ("ArrowRight", 39, ""),
    ("Home", 36, ""),
    ("End", 35, ""),
    ("PageUp", 33, ""),
    ("PageDown", 34, ""),
    ("Space", 32, " "),
    ("Insert", 45, ""),
];

/// The two events of a key, down and up; nothing for a name that is none.
pub(super) fn events(name: &str) -> Option<[Value; 2]> {
    let (held, key) = match name.rsplit_once('+') {
        Some((held, key)) if !held.is_empty() && !key.is_empty() => (held, key),
        _ => ("", name),
    };
    let mut modifiers = 0;
    for word in held.split('+').filter(|word| !word.is_empty()) {
        modifiers |= match word.to_ascii_lowercase().as_str() {
            "alt" => 1,
            "control" | "ctrl" => 2,
            "meta" | "cmd" | "command" => 4,
            "shift" => 8,
            _ => return None,
        };
    }
    let mut down = description(key)?;
    // With a modifier a key is an order, not a letter.
    if modifiers & 7 != 0 {
        down.as_object_mut()?.remove("text");
    }
    down["modifiers"] = modifiers.into();
    let mut up = down.clone();
    up.as_object_mut()?.remove("text");
    down["type"] = if down.get("text").is_some() { "keyDown" } else { "rawKeyDown" }.into();
    up["type"] = "keyUp".into();
    // A shortcut is only taken when its command is named.
    if modifiers & 6 != 0 && key.eq_ignore_ascii_case("a") {
        down["commands"] = json!(["selectAll"]);
    }
    Some([down, up])
}

fn description(key: &str) -> Option<Value> {
    let named = NAMED.iter().find(|(name, ..)| name.eq_ignore_ascii_case(key));
    if let Some((name, code, text)) = named {
        let word = if *name == "Space" { " " } else { name };
        let mut event = json!({ "key": word, "code": name, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            event["text"] = (*text).into();
        }
        return Some(event);
    }
    let mut characters = key.chars();
    let (only, more) = (characters.next()?, characters.next());
    if more.is_some() || only.is_control() {
        return None;
    }
    let upper = only.to_ascii_uppercase();
    let mut event = json!({ "key": key, "text": key });
    if upper.is_ascii_alphanumeric() {
        let kind = if upper.is_ascii_digit() { "Digit" } else { "Key" };
        event["code"] = format!("{kind}{upper}").into();
        event["windowsVirtualKeyCode"] = u32::from(upper).into();
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_down_and_up() {
        let [down, up] = events("enter").unwrap();
        assert_eq!(
            (&down["type"], &down["key"], &down["text"]),
            (&json!("keyDown"), &json!("Enter"), &json!("\r"))
        );
        assert_eq!((&up["type"], up.get("text")), (&json!("keyUp"), None));
        let [down, _] = events("Control+a").unwrap();
        assert_eq!(
            (&down["modifiers"], &down["type"], &down["code"]),
            (&json!(2), &json!("rawKeyDown"), &json!("KeyA"))
        );
        assert_eq!(events("+").unwrap()[0]["key"], "+");
        assert_eq!(events("é").unwrap()[0]["text"], "é");
    }

    #[test]
    fn a_word_that_is_no_key_is_none() {
        for name in ["", "Entre", "Hyper+a", "ab", "\n"] {
            assert_eq!(events(name), None, "{name:?}");
        }
    }
}
