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

/// The changes that bring a document to what is wanted. `shown` is the document as readers see it, with masks.
pub(crate) fn changes(document: &Value, shown: &Value, wanted: &Value) -> Result<Vec<Change>, PathError> {
    let mut found = Vec::new();
    walk(Held { from: document, shown }, wanted, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// What a place holds, and what readers see of it.
#[derive(Clone, Copy)]
struct Held<'a> {
    from: &'a Value,
    shown: &'a Value,
}

const NOTHING: Held<'static> = Held { from: &Value::Null, shown: &Value::Null };

impl<'a> Held<'a> {
    fn key(self, key: &str) -> Held<'a> {
        match (self.from.get(key), self.shown.get(key)) {
            (Some(from), Some(shown)) => Held { from, shown },
            _ => NOTHING,
        }
    }

    fn items(self) -> Vec<Held<'a>> {
        let (from, shown) = (self.from.as_array(), self.shown.as_array());
        let pairs = from.into_iter().flatten().zip(shown.into_iter().flatten());
        pairs.map(|(from, shown)| Held { from, shown }).collect()
    }

    /// Whether a reader who says this means what is there.
    fn is_meant_by(self, to: &Value) -> bool {
        self.from == to || self.shown == to
    }
}

fn walk(held: Held<'_>, to: &Value, at: &mut Vec<String>, found: &mut Vec<Change>) -> Result<(), PathError> {
    if held.is_meant_by(to) {
        return Ok(());
    }
    if let (Value::Object(from), Value::Object(to)) = (held.from, to) {
        for key in from.keys().filter(|key| !to.contains_key(*key)) {
            at.push(key.clone());
            found.push(Change::Unset { path: KeyPath::from_segments(at.iter().cloned())? });
            at.pop();
        }
        for (key, value) in to {
            at.push(key.clone());
            walk(held.key(key), value, at, found)?;
            at.pop();
        }
        return Ok(());
    }
    let path = KeyPath::from_segments(at.iter().cloned())?;
    let value = unmasked(held, to).ok_or_else(|| PathError::Masked { at: path.to_string() })?;
    found.push(Change::Set { path, value });
    Ok(())
}

/// What came, with what was there in the place of masks; `None` when nobody can tell what a mask stands for.
fn unmasked(held: Held<'_>, to: &Value) -> Option<Value> {
    if held.is_meant_by(to) {
        return Some(held.from.clone());
    }
    match to {
        Value::String(text) if text.contains(REDACTED) => None,
        Value::Array(wanted) => {
            let items = held.items();
            // An item is known by all that is shown of it; by its place only while none came or went.
            let known = |index: usize, item: &Value| {
                let same = items.iter().find(|held| held.is_meant_by(item)).copied();
                let placed = (items.len() == wanted.len()).then(|| items.get(index).copied()).flatten();
                same.or(placed).unwrap_or(NOTHING)
            };
            wanted.iter().enumerate().map(|(index, item)| unmasked(known(index, item), item)).collect()
        }
        Value::Object(fields) => {
            let fields: Option<Map<String, Value>> = fields
                .iter()
                .map(|(key, value)| Some((key.clone(), unmasked(held.key(key), value)?)))
                .collect();
            fields.map(Value::Object)
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As a reader sees it: every `key` and every password is masked.
    fn masked(document: &Value) -> Value {
        match document {
            Value::Object(fields) => {
                let shown = |key: &String, value: &Value| match key.as_str() {
                    "key" => REDACTED.into(),
                    "url" => "postgres://u:[redacted]@h".into(),
                    _ => masked(value),
                };
                fields.iter().map(|(key, value)| (key.clone(), shown(key, value))).collect()
            }
            Value::Array(items) => items.iter().map(masked).collect(),
            other => other.clone(),
        }
    }

    fn told(document: &Value, patch: &Value) -> Vec<String> {
        let told = |change: Change| match change {
            Change::Set { path, value } => format!("{path} = {value}"),
            Change::Unset { path } => format!("{path} goes"),
        };
        changes(document, &masked(document), &merged(document, patch))
            .unwrap()
            .into_iter()
            .map(told)
            .collect()
    }

    #[test]
    fn a_patch_is_the_changes_it_makes() {
        let document = json!({"a": {"b": 1, "c": [1]}, "d": "x"});
        assert_eq!(told(&document, &json!({"a": {"b": 2}})), ["a.b = 2"]);
        assert_eq!(told(&document, &json!({"a": {"b": null, "none": null}})), ["a.b goes"]);
        assert_eq!(told(&document, &json!({"a": {"c": [2, 3]}, "d": "x"})), ["a.c = [2,3]"]);
        assert_eq!(told(&document, &json!({"e": {"f": 1, "g": null}})), [r#"e = {"f":1}"#]);
        assert_eq!(told(&document, &json!({"d": {"k": 1}})), [r#"d = {"k":1}"#]);
        assert!(changes(&document, &document, &json!({"": 1, "a": {}})).is_err());
    }

    #[test]
    fn only_what_differs_is_changed_and_a_mask_changes_nothing() {
        let from =
            json!({ "a": 1, "gone": true, "deep": { "key": "secret", "n": 1 }, "list": [{ "key": "s" }] });
        let to = json!({ "a": 1, "deep": { "key": REDACTED, "n": 2 }, "list": [{ "key": REDACTED, "m": 3 }], "new": {} });
        let path = |segments: &[&str]| KeyPath::from_segments(segments.iter().copied()).unwrap();
        assert_eq!(
            changes(&from, &masked(&from), &to).unwrap(),
            [
                Change::Unset { path: path(&["gone"]) },
                Change::Set { path: path(&["deep", "n"]), value: json!(2) },
                Change::Set { path: path(&["list"]), value: json!([{ "key": "s", "m": 3 }]) },
                Change::Set { path: path(&["new"]), value: json!({}) },
            ]
        );
        assert_eq!(told(&from, &json!({ "deep": { "key": REDACTED } })), [] as [String; 0]);
    }

    #[test]
    fn a_document_that_comes_back_as_it_was_shown_changes_nothing() {
        let from = json!({ "url": "postgres://u:secret@h", "list": [{ "key": "a" }, { "key": "b" }] });
        assert_eq!(changes(&from, &masked(&from), &masked(&from)), Ok(Vec::new()));
    }

    #[test]
    fn a_secret_never_moves_to_another_item_of_a_list() {
        let from = json!({ "list": [{ "id": 1, "key": "a" }, { "id": 2, "key": "b" }] });
        let without_first = json!({ "list": [{ "id": 2, "key": REDACTED }] });
        assert_eq!(told(&from, &without_first), [r#"list = [{"id":2,"key":"b"}]"#]);
        let changed_too = json!({ "list": [{ "id": 3, "key": REDACTED }] });
        let refused = changes(&from, &masked(&from), &changed_too);
        assert_eq!(refused, Err(PathError::Masked { at: "list".to_owned() }));
    }
}
