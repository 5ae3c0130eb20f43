//! A merge patch (RFC 7386) as the single changes it means. Pure.

use serde_json::Value;

use crate::edit::Change;
use crate::path::{self, KeyPath, PathError};

/// The changes that bring a document to what the patch wants. A key that would be taken away and is not there is none.
pub(crate) fn changes(document: &Value, patch: &Value) -> Result<Vec<Change>, PathError> {
    let mut found = Vec::new();
    walk(document, patch, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn walk(
    document: &Value,
    patch: &Value,
    at: &mut Vec<String>,
    found: &mut Vec<Change>,
) -> Result<(), PathError> {
    let Value::Object(keys) = patch else { return Ok(()) };
    for (key, wanted) in keys {
        at.push(key.clone());
        let path = KeyPath::from_segments(at.iter().cloned())?;
        let current = path::get(document, &path);
        match (current, wanted) {
            (None, Value::Null) => {}
            (Some(_), Value::Null) => found.push(Change::Unset { path }),
            (Some(Value::Object(_)), Value::Object(_)) => walk(document, wanted, at, found)?,
            (Some(current), wanted) if current == wanted => {}
            _ => found.push(Change::Set { path, value: without_nulls(wanted) }),
        }
        at.pop();
    }
    Ok(())
}

/// What stands where nothing stood: a key that goes is not put there.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(keys) => {
            let kept = keys.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
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
        changes(document, patch).unwrap().into_iter().map(told).collect()
    }

    #[test]
    fn a_patch_is_the_changes_it_makes() {
        let document = json!({"a": {"b": 1, "c": [1]}, "d": "x"});
        assert_eq!(told(&document, &json!({"a": {"b": 2}})), ["a.b = 2"]);
        assert_eq!(told(&document, &json!({"a": {"b": null, "none": null}})), ["a.b goes"]);
        assert_eq!(told(&document, &json!({"a": {"c": [2, 3]}, "d": "x"})), ["a.c = [2,3]"]);
        assert_eq!(told(&document, &json!({"e": {"f": 1, "g": null}})), [r#"e = {"f":1}"#]);
        assert_eq!(told(&document, &json!({"d": {"k": 1}})), [r#"d = {"k":1}"#]);
        assert!(changes(&document, &json!({"": 1})).is_err());
    }
}
