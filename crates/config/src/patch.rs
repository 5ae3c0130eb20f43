//! Merge patches (RFC 7386), and the single changes that bring a document to what is wanted. Pure.
//!
//! What does not change is not named, so that it stays as it is written. A mask that stands where a secret was read means
//! what was there.

use serde_json::{Map, Value};
use tidegate_secrets::REDACTED;

use crate::edit::Change;
use crate::path::{KeyPath, PathError};

/// What a document becomes: objects are merged, `null` takes away, everything else replaces.
pub fn merged(base: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = base.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            merged.shift_remove(key);
        } else {
            let before = merged.get(key).cloned().unwrap_or(Value::Null);
            merged.insert(key.clone(), self::merged(&before, value));
        }
    }
    Value::Object(merged)
}

/// The changes that bring a document to what is wanted.
pub(crate) fn changes(document: &Value, wanted: &Value) -> Result<Vec<Change>, PathError> {
    let mut found = Vec::new();
    walk(document, wanted, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn walk(from: &Value, to: &Value, at: &mut Vec<String>, found: &mut Vec<Change>) -> Result<(), PathError> {
    if from == to || to.as_str() == Some(REDACTED) {
        return Ok(());
    }
    if let (Value::Object(from), Value::Object(to)) = (from, to) {
        for key in from.keys().filter(|key| !to.contains_key(*key)) {
            at.push(key.clone());
            found.push(Change::Unset { path: KeyPath::from_segments(at.iter().cloned())? });
            at.pop();
        }
        for (key, value) in to {
            at.push(key.clone());
            walk(from.get(key).unwrap_or(&Value::Null), value, at, found)?;
            at.pop();
        }
        return Ok(());
    }
    let path = KeyPath::from_segments(at.iter().cloned())?;
    found.push(Change::Set { path, value: unmasked(from, to) });
    Ok(())
}

/// What came, with what was there in the place of masks.
fn unmasked(from: &Value, to: &Value) -> Value {
    match to {
        Value::String(text) if text == REDACTED => from.clone(),
        Value::Array(items) => {
            let before = |index: usize| from.get(index).unwrap_or(&Value::Null);
            items.iter().enumerate().map(|(index, item)| unmasked(before(index), item)).collect()
        }
        Value::Object(fields) => {
            let before = |key: &str| from.get(key).unwrap_or(&Value::Null);
            let fields: Map<String, Value> =
                fields.iter().map(|(key, value)| (key.clone(), unmasked(before(key), value))).collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(document: &Value, patch: &Value) -> Vec<String> {
        let told = |change: Change| match change {
            Change::Set { path, value } => format!("{path} = {value}"),
            Change::Unset { path } => format!("{path} goes"),
        };
        changes(document, &merged(document, patch)).unwrap().into_iter().map(told).collect()
    }

    #[test]
    fn a_patch_is_the_changes_it_makes() {
        let document = json!({"a": {"b": 1, "c": [1]}, "d": "x"});
        assert_eq!(told(&document, &json!({"a": {"b": 2}})), ["a.b = 2"]);
        assert_eq!(told(&document, &json!({"a": {"b": null, "none": null}})), ["a.b goes"]);
        assert_eq!(told(&document, &json!({"a": {"c": [2, 3]}, "d": "x"})), ["a.c = [2,3]"]);
        assert_eq!(told(&document, &json!({"e": {"f": 1, "g": null}})), [r#"e = {"f":1}"#]);
        assert_eq!(told(&document, &json!({"d": {"k": 1}})), [r#"d = {"k":1}"#]);
        assert!(changes(&document, &json!({"": 1, "a": {}})).is_err());
    }

    #[test]
    fn only_what_differs_is_changed_and_a_mask_changes_nothing() {
        let from =
            json!({ "a": 1, "gone": true, "deep": { "key": "secret", "n": 1 }, "list": [{ "key": "s" }] });
        let to = json!({ "a": 1, "deep": { "key": REDACTED, "n": 2 }, "list": [{ "key": REDACTED, "m": 3 }], "new": {} });
        let path = |segments: &[&str]| KeyPath::from_segments(segments.iter().copied()).unwrap();
        assert_eq!(
            changes(&from, &to).unwrap(),
            [
                Change::Unset { path: path(&["gone"]) },
                Change::Set { path: path(&["deep", "n"]), value: json!(2) },
                Change::Set { path: path(&["list"]), value: json!([{ "key": "s", "m": 3 }]) },
                Change::Set { path: path(&["new"]), value: json!({}) },
            ]
        );
        assert_eq!(told(&from, &json!({ "deep": { "key": REDACTED } })), [] as [String; 0]);
    }
}
