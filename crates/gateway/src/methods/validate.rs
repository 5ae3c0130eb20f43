//! Checks parameters against the schema of their type, and says what is wrong in the words that clients of the protocol
//! know. Pure.
//!
//! The part of JSON Schema that our parameter types use, with the order and the wording of the validator that the
//! protocol's own clients were written against.

use serde_json::{Map, Value};

/// What becomes of fields that the schema does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unnamed {
    Refused,
    /// A newer client may know more than we do.
    Ignored,
}

/// Everything that is wrong, in one line; `None` when nothing is.
pub(crate) fn problems(schema: &Value, value: &Value, unnamed: Unnamed) -> Option<String> {
    let mut found = Found { root: schema, unnamed, lines: Vec::new() };
    found.look(schema, value, "");
    (!found.lines.is_empty()).then(|| found.lines.join("; "))
}

struct Found<'s> {
    /// Where `$ref` leads.
    root: &'s Value,
    unnamed: Unnamed,
    lines: Vec<String>,
}

impl<'s> Found<'s> {
    fn add(&mut self, at: &str, message: &str) {
        let line = if at.is_empty() { message.to_owned() } else { format!("at {at}: {message}") };
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn look(&mut self, schema: &'s Value, value: &Value, at: &str) {
        let Some(rules) = schema.as_object() else { return };
        if let Some(target) = rules.get("$ref").and_then(Value::as_str) {
            if let Some(target) = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                self.look(target, value, at);
            }
            return;
        }
        if !self.is_of_type(rules, value, at) {
            return;
        }
        match value {
            Value::Number(number) => self.number(rules, number, at),
            Value::String(text) => self.string(rules, text, at),
            _ => {}
        }
        self.choices(rules, value, at);
        match value {
            Value::Array(items) => self.array(rules, items, at),
            Value::Object(fields) => self.object(rules, fields, at),
            _ => {}
        }
    }

    fn is_of_type(&mut self, rules: &Map<String, Value>, value: &Value, at: &str) -> bool {
        let Some(kind) = rules.get("type") else { return true };
        let kinds: Vec<&str> = match kind {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        if kinds.iter().any(|kind| is(kind, value)) {
            return true;
        }
        // A type that may be left out is named by what it is when it is there.
        let named = kinds.iter().find(|kind| **kind != "null").or(kinds.first()).unwrap_or(&"null");
        self.add(at, &format!("must be {named}"));
        false
    }

    fn number(&mut self, rules: &Map<String, Value>, number: &serde_json::Number, at: &str) {
        let value = number.as_f64().unwrap_or_default();
        for (rule, sign, holds) in
            [("maximum", "<=", f64::le as fn(&f64, &f64) -> bool), ("minimum", ">=", f64::ge)]
        {
            if let Some(limit) = rules.get(rule).and_then(Value::as_f64)
                && !holds(&value, &limit)
            {
                self.add(at, &format!("must be {sign} {limit}"));
            }
        }
    }

    fn string(&mut self, rules: &Map<String, Value>, text: &str, at: &str) {
        let length = text.encode_utf16().count() as u64;
        if let Some(limit) = rules.get("maxLength").and_then(Value::as_u64).filter(|limit| length > *limit) {
            self.add(at, &format!("must NOT have more than {limit} characters"));
        }
        if let Some(limit) = rules.get("minLength").and_then(Value::as_u64).filter(|limit| length < *limit) {
            self.add(at, &format!("must NOT have fewer than {limit} characters"));
        }
    }

    fn choices(&mut self, rules: &'s Map<String, Value>, value: &Value, at: &str) {
        for rule in ["anyOf", "oneOf"] {
            let Some(branches) = rules.get(rule).and_then(Value::as_array) else { continue };
            let before = self.lines.len();
            let mut fits = false;
            for branch in branches {
                let mut trial = Found { root: self.root, unnamed: self.unnamed, lines: Vec::new() };
                trial.look(branch, value, at);
                if trial.lines.is_empty() {
                    fits = true;
                    break;
                }
                for line in trial.lines {
                    if !self.lines.contains(&line) {
                        self.lines.push(line);
                    }
                }
            }
            if fits {
                self.lines.truncate(before);
            } else {
                self.add(at, &format!("must match a schema in {rule}"));
            }
        }
        if let Some(allowed) = rules.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            self.add(at, "must be equal to one of the allowed values");
        }
        if let Some(constant) = rules.get("const")
            && constant != value
        {
            self.add(at, "must be equal to constant");
        }
    }

    fn array(&mut self, rules: &'s Map<String, Value>, items: &[Value], at: &str) {
        let count = items.len() as u64;
        if let Some(limit) = rules.get("maxItems").and_then(Value::as_u64).filter(|limit| count > *limit) {
            self.add(at, &format!("must NOT have more than {limit} items"));
        }
        if let Some(limit) = rules.get("minItems").and_then(Value::as_u64).filter(|limit| count < *limit) {
            self.add(at, &format!("must NOT have fewer than {limit} items"));
        }
        let Some(of) = rules.get("items") else { return };
        for (index, item) in items.iter().enumerate() {
            self.look(of, item, &format!("{at}/{index}"));
        }
    }

    fn object(&mut self, rules: &'s Map<String, Value>, fields: &Map<String, Value>, at: &str) {
        for name in rules.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = name.as_str().filter(|name| !fields.contains_key(*name)) {
                self.add(at, &format!("must have required property '{name}'"));
            }
        }
        let known = rules.get("properties").and_then(Value::as_object);
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        let others = rules.get("additionalProperties");
        if others == Some(&Value::Bool(false)) && self.unnamed == Unnamed::Refused {
            for name in fields.keys().filter(|name| !is_known(name)) {
                let at = if at.is_empty() { "root" } else { at };
                self.add(at, &format!("unexpected property '{name}'"));
            }
        }
        for (name, schema) in known.into_iter().flatten() {
            if let Some(value) = fields.get(name) {
                self.look(schema, value, &format!("{at}/{}", escape(name)));
            }
        }
        if let Some(schema) = others.filter(|others| others.is_object()) {
            for (name, value) in fields.iter().filter(|(name, _)| !is_known(name)) {
                self.look(schema, value, &format!("{at}/{}", escape(name)));
            }
        }
    }
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_is_wrong_is_told_once_and_in_order() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["key"],
            "properties": {
                "key": { "type": "string", "minLength": 1 },
                "limit": { "type": ["integer", "null"], "minimum": 1, "maximum": 10 },
                "policy": { "anyOf": [{ "const": "allow" }, { "const": "deny" }, { "type": "null" }] },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" } },
            },
            "$defs": { "tag": { "enum": ["a", "b"] } },
        });
        for (value, expected) in [
            (json!({ "key": "k", "policy": null, "limit": 3 }), None),
            (json!(7), Some("must be object")),
            (
                json!({ "limit": "x", "zz": 1 }),
                Some(
                    "must have required property 'key'; at root: unexpected property 'zz'; at /limit: must be integer",
                ),
            ),
            (
                json!({ "key": "", "limit": 11 }),
                Some("at /key: must NOT have fewer than 1 characters; at /limit: must be <= 10"),
            ),
            (
                json!({ "key": "k", "policy": "maybe" }),
                Some(
                    "at /policy: must be equal to constant; at /policy: must be null; at /policy: must match a schema in anyOf",
                ),
            ),
            (
                json!({ "key": "k", "tags": ["a", "c"] }),
                Some("at /tags/1: must be equal to one of the allowed values"),
            ),
        ] {
            assert_eq!(problems(&schema, &value, Unnamed::Refused).as_deref(), expected, "{value}");
        }
        assert_eq!(problems(&schema, &json!({ "key": "k", "zz": 1 }), Unnamed::Ignored), None);
    }
}
