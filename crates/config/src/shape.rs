//! The schema as a tree that is easy to walk.
//!
//! The JSON Schema generated from the key structs is compiled once into [`Node`]s; validation, defaults,
//! redaction, suggestions and the reference all walk that one tree, so they cannot disagree about a key. Owns the
//! two forms of the schema; knows nothing about a particular file.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use tidegate_secrets::SENSITIVE_MARK;

use crate::format::{self, Format};
use crate::include::INCLUDE_KEY;
use crate::schema::Config;

/// One key, or the elements of a list or map.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) description: String,
    /// The value when the key is not set; for a section, with everything below it.
    pub(crate) default: Option<Value>,
    pub(crate) sensitive: bool,
    pub(crate) shape: Shape,
}

#[derive(Clone)]
pub(crate) enum Shape {
    Text {
        not_empty: bool,
        format: Option<&'static Format>,
    },
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    Choice(Vec<Choice>),
    List(Box<Node>),
    /// Names chosen by the owner, all with the same content.
    Map(Box<Node>),
    Object {
        keys: Vec<(String, Node)>,
        required: Vec<String>,
    },
    /// An object whose keys this version does not know.
    Open,
    Either(Vec<Node>),
    /// A form this module does not understand; a test sees to it that there is none.
    Unknown,
}

#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) description: String,
}

/// The whole file.
pub(crate) fn root() -> &'static Node {
    static ROOT: LazyLock<Node> = LazyLock::new(|| compile(&generated()));
    &ROOT
}

impl Node {
    /// The one of several forms that a value of this type can have.
    pub(crate) fn branch_for(&self, value: &Value) -> &Node {
        let Shape::Either(branches) = &self.shape else { return self };
        let fits = |branch: &&Node| match branch.shape {
            Shape::Text { .. } | Shape::Choice(_) => value.is_string(),
            Shape::Object { .. } | Shape::Map(_) | Shape::Open => value.is_object(),
            Shape::List(_) => value.is_array(),
            Shape::Integer { .. } | Shape::Number { .. } => value.is_number(),
            Shape::Boolean => value.is_boolean(),
            Shape::Either(_) | Shape::Unknown => false,
        };
        branches.iter().find(fits).unwrap_or(self)
    }

    pub(crate) fn key(&self, name: &str) -> Option<&Node> {
        match &self.shape {
            Shape::Object { keys, .. } => keys.iter().find(|(key, _)| key == name).map(|(_, node)| node),
            Shape::Map(node) => Some(node),
            _ => None,
        }
    }
}

/// Puts the default of every key that is not set into a document.
pub(crate) fn fill_defaults(node: &Node, value: &mut Value) {
    let node = node.branch_for(value);
    match (&node.shape, value) {
        (Shape::Object { keys, .. }, Value::Object(map)) => {
            for (key, child) in keys {
                match (map.get_mut(key), &child.default) {
                    (Some(held), _) => fill_defaults(child, held),
                    (None, Some(default)) => drop(map.insert(key.clone(), default.clone())),
                    (None, None) => {}
                }
            }
        }
        (Shape::Map(child), Value::Object(map)) => {
            map.values_mut().for_each(|held| fill_defaults(child, held));
        }
        (Shape::List(child), Value::Array(items)) => {
            for held in items {
                fill_defaults(child, held);
            }
        }
        _ => {}
    }
}

/// The JSON Schema of the whole file, for editors and for `config schema`.
pub fn json_schema() -> Value {
    let mut schema = generated();
    for_editors(&mut schema);
    if let Value::Object(map) = &mut schema {
        map.insert("title".into(), "Tidegate configuration".into());
    }
    schema
}

/// What schemars says about the structs, without null: a key that is not set is left out, never null.
fn generated() -> Value {
    let generator =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<Config>().to_value();
    without_null(&mut schema);
    schema
}

fn without_null(schema: &mut Value) {
    for_each_subschema(schema, &mut without_null);
    let Value::Object(keywords) = schema else { return };
    if let Some(default) = keywords.get_mut("default") {
        drop_nulls(default);
        if default.is_null() {
            keywords.shift_remove("default");
        }
    }
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            keywords.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(branches)) = keywords.get_mut("anyOf") {
        branches.retain(|branch| *branch != json!({"type": "null"}));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            keywords.shift_remove("anyOf");
            for (keyword, content) in only {
                keywords.entry(keyword).or_insert(content);
            }
        }
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// The defaults of whole sections only repeat those of their keys; and a file on disk may hold `$include` in any
/// object, which is gone by the time we validate.
fn for_editors(schema: &mut Value) {
    for_each_subschema(schema, &mut for_editors);
    let Value::Object(keywords) = schema else { return };
    let holds_keys = |default: &Value| default.as_object().is_some_and(|keys| !keys.is_empty());
    if keywords.get("default").is_some_and(holds_keys) {
        keywords.shift_remove("default");
    }
    if keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && let Some(Value::Object(properties)) = keywords.get_mut("properties")
    {
        properties.insert(INCLUDE_KEY.into(), include_schema());
    }
}

/// Visits the schemas inside a schema, and never a key that happens to be called like a keyword.
fn for_each_subschema(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, content) in keywords {
        match (keyword.as_str(), content) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(&mut *visit),
            ("anyOf" | "oneOf", Value::Array(branches)) => branches.iter_mut().for_each(&mut *visit),
            ("items" | "additionalProperties", content) => visit(content),
            _ => {}
        }
    }
}

fn include_schema() -> Value {
    json!({
        "description": "Files whose content stands here; the keys beside it win.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    })
}

fn compile(schema: &Value) -> Node {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str).unwrap_or_default().to_owned();
    Node {
        description: text("description").replace('\n', " "),
        default: schema.get("default").cloned(),
        sensitive: schema.get(SENSITIVE_MARK) == Some(&Value::Bool(true)),
        shape: compile_shape(schema),
    }
}

fn compile_shape(schema: &Value) -> Shape {
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    if let Some(choices) = list("oneOf").and_then(|branches| choices(branches)) {
        return Shape::Choice(choices);
    }
    if let Some(branches) = list("anyOf") {
        return Shape::Either(branches.iter().map(compile).collect());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Shape::Text {
            not_empty: schema.get("minLength").and_then(Value::as_u64).unwrap_or(0) > 0,
            format: schema.get("pattern").and_then(Value::as_str).and_then(format::by_pattern),
        },
        Some("integer") => {
            let (lowest, highest) =
                integer_range(schema.get("format").and_then(Value::as_str).unwrap_or_default());
            Shape::Integer {
                min: schema.get("minimum").and_then(Value::as_i64).unwrap_or(lowest),
                max: schema.get("maximum").and_then(Value::as_i64).unwrap_or(highest),
            }
        }
        Some("number") => Shape::Number {
            min: schema.get("minimum").and_then(Value::as_f64),
            max: schema.get("maximum").and_then(Value::as_f64),
        },
        Some("boolean") => Shape::Boolean,
        Some("array") => Shape::List(Box::new(compile(schema.get("items").unwrap_or(&Value::Null)))),
        Some("object") => compile_object(schema),
        _ => Shape::Unknown,
    }
}

fn compile_object(schema: &Value) -> Shape {
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            let empty = Map::new();
            let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
            let required = schema.get("required").and_then(Value::as_array);
            Shape::Object {
                keys: properties.iter().map(|(key, child)| (key.clone(), compile(child))).collect(),
                required: required
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            }
        }
        Some(Value::Bool(true)) => Shape::Open,
        Some(child) => Shape::Map(Box::new(compile(child))),
        None => Shape::Unknown,
    }
}

fn choices(branches: &[Value]) -> Option<Vec<Choice>> {
    let choice = |branch: &Value| {
        Some(Choice {
            value: branch.get("const")?.as_str()?.to_owned(),
            description: branch
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .replace('\n', " "),
        })
    };
    branches.iter().map(choice).collect()
}

/// schemars names the integer type and leaves out the limits of the wider ones.
fn integer_range(format: &str) -> (i64, i64) {
    match format {
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint" => (0, i64::MAX),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(path: &str, node: &Node, seen: &mut impl FnMut(&str, &Node)) {
        seen(path, node);
        match &node.shape {
            Shape::List(child) => visit(&format!("{path}[]"), child, seen),
            Shape::Map(child) => visit(&format!("{path}.<name>"), child, seen),
            Shape::Object { keys, .. } => {
                for (key, child) in keys {
                    visit(format!("{path}.{key}").trim_start_matches('.'), child, seen);
                }
            }
            Shape::Either(branches) => branches.iter().for_each(|branch| visit(path, branch, seen)),
            _ => {}
        }
    }

    #[test]
    fn every_key_has_a_form_that_is_understood_and_a_description() {
        visit("", root(), &mut |path, node| {
            assert!(!matches!(node.shape, Shape::Unknown), "{path} has a schema that shape.rs cannot read");
            let element = path.ends_with("[]") || path.ends_with('>');
            let has_branches = [
                "agents.list[].model",
                "agents.list[].subagents.model",
                "agents.defaults.subagents.model",
                "tools.custom.<name>.http.body",
            ]
            .contains(&path);
            assert!(
                element || has_branches || path.is_empty() || !node.description.is_empty(),
                "{path} needs a doc comment"
            );
        });
    }

    #[test]
    fn every_pattern_of_the_schema_has_its_check() {
        fn patterns(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| patterns(item, found)),
                Value::Object(map) => {
                    found.extend(map.get("pattern").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|item| patterns(item, found));
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        patterns(&generated(), &mut found);
        assert!(!found.is_empty());
        for pattern in found {
            assert!(format::by_pattern(&pattern).is_some(), "no check for {pattern}");
        }
    }

    #[test]
    fn the_filled_empty_document_is_the_default_config() {
        let mut document = json!({});
        fill_defaults(root(), &mut document);
        assert_eq!(serde_json::from_value::<Config>(document).unwrap(), Config::default());
    }

    #[test]
    fn the_public_schema_knows_no_null_and_allows_includes() {
        let schema = json_schema();
        assert!(!schema.to_string().contains("null"));
        assert!(schema["properties"]["gateway"]["properties"][INCLUDE_KEY].is_object());
        assert_eq!(schema["properties"]["gateway"]["properties"]["port"]["default"], 18789);
        assert_eq!(schema["properties"]["gateway"].get("default"), None);
        let agent = &schema["properties"]["agents"]["properties"]["list"]["items"]["properties"];
        assert_eq!(agent["default"]["type"], "boolean", "a key called like a keyword stays");
    }
}
