//! What is known about a tool before it is called.

use std::time::Duration;

use schemars::JsonSchema;
use serde_json::Value;
use tidegate_protocol::Risk;

/// How long a tool may take unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// As it is shown to models and people. Names are found whatever their case.
    pub name: String,
    /// Other names it answers to; policy sees the name only.
    pub aliases: Vec<String>,
    /// For the model: what it does and when to use it, in few words.
    pub description: String,
    /// A JSON Schema of type `object`, without references.
    pub input_schema: Value,
    pub risk: Risk,
    /// Running it twice is the same as running it once.
    pub idempotent: bool,
    /// Asked again it answers the same, until what it looks at was changed: its results may be used again.
    pub steady: bool,
    /// Absent: the tool keeps its own time.
    pub timeout: Option<Duration>,
}

impl ToolSpec {
    /// A tool whose arguments are `A`. Reading, idempotent, with the default timeout, until said otherwise.
    pub fn of<A: JsonSchema>(name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            aliases: Vec::new(),
            description: description.to_owned(),
            input_schema: schema_of::<A>(),
            risk: Risk::Read,
            idempotent: true,
            steady: false,
            timeout: Some(DEFAULT_TIMEOUT),
        }
    }
}

/// The schema of an argument type as models read it: one object, nothing to look up, no words they do not need.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    plain(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        object.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// What everybody takes for granted when nothing is given.
fn is_nothing(default: &Value) -> bool {
    match default {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Takes out what only Rust needs: titles, number formats, and null as a way to leave something out.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("title");
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                object.remove("format");
            }
            if object.get("default").is_some_and(is_nothing) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("enum") {
                choices.retain(|choice| !choice.is_null());
            }
            if let Some(Value::Array(forms)) = object.get_mut("anyOf") {
                forms.retain(|form| form.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(only)] = forms.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (keyword, value) in only {
                        object.entry(keyword).or_insert(value);
                    }
                }
            }
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.values_mut().for_each(plain);
            }
            for keyword in ["items", "additionalProperties"] {
                if let Some(inner) = object.get_mut(keyword) {
                    plain(inner);
                }
            }
            for keyword in ["anyOf", "oneOf"] {
                if let Some(Value::Array(forms)) = object.get_mut(keyword) {
                    forms.iter_mut().for_each(plain);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::check_schema;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    #[serde(rename_all = "camelCase")]
    struct Args {
        /// Where.
        path: String,
        /// How many.
        #[schemars(range(min = 1))]
        line_limit: Option<u32>,
        kind: Option<Kind>,
        #[serde(default)]
        quick: bool,
        #[serde(default)]
        names: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        One,
        Two,
    }

    #[test]
    fn a_schema_says_what_a_model_needs_and_nothing_else() {
        let spec = ToolSpec::of::<Args>("x", "y");
        assert_eq!(
            spec.input_schema,
            json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "Where." },
                    "lineLimit": { "type": "integer", "description": "How many.", "minimum": 1 },
                    "kind": { "type": "string", "enum": ["one", "two"] },
                    "quick": { "type": "boolean" },
                    "names": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["path"],
                "additionalProperties": false,
            })
        );
        assert_eq!(check_schema(&spec.input_schema), Ok(()));
    }
}
