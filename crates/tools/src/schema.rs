//! Checking arguments against a tool's schema: every problem at once, with what was received.
//!
//! It knows the part of JSON Schema that tools use and that models are shown. A schema an operator writes is checked for
//! other keywords when it is loaded (`check_schema`), so that no rule is silently not kept.

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Keywords that mean something here; the second list only describes.
const KEPT: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "anyOf",
    "oneOf",
];
const DESCRIBING: &[&str] =
    &["$schema", "$id", "title", "description", "default", "examples", "format", "$comment"];

/// How deep arguments may nest.
const DEPTH: usize = 32;
/// How long a received value is quoted.
const QUOTED: usize = 200;

/// One thing that is wrong with some arguments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArgumentProblem {
    /// The argument, such as `path` or `edits[0].oldText`.
    pub argument: String,
    pub message: String,
    /// What came; absent for one that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Value>,
}

/// Everything that is wrong with the arguments, in the order of the schema.
pub fn check_arguments(schema: &Value, args: &Value) -> Vec<ArgumentProblem> {
    let mut problems = Vec::new();
    if args.is_object() {
        check(schema, args, "", 0, &mut problems);
    } else {
        problems.push(ArgumentProblem {
            argument: String::new(),
            message: "arguments must be an object".to_owned(),
            received: Some(shortened(args)),
        });
    }
    problems
}

/// Why a schema cannot be kept, if it cannot.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the schema must have \"type\": \"object\"".to_owned());
    }
    keepable(schema, "")
}

fn keepable(schema: &Value, at: &str) -> Result<(), String> {
    let Some(object) = schema.as_object() else {
        return if schema.is_boolean() { Ok(()) } else { Err(format!("{at}: a schema is an object")) };
    };
    for (keyword, value) in object {
        let here = format!("{at}/{keyword}");
        match keyword.as_str() {
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    keepable(inner, &format!("{here}/{name}"))?;
                }
            }
            "items" | "additionalProperties" => keepable(value, &here)?,
            "anyOf" | "oneOf" => {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    keepable(inner, &format!("{here}/{index}"))?;
                }
            }
            "pattern" => {
                let pattern = value.as_str().unwrap_or_default();
                Regex::new(pattern).map_err(|error| format!("{here}: {error}"))?;
            }
            known if KEPT.contains(&known) || DESCRIBING.contains(&known) => {}
            _ => return Err(format!("{here}: the keyword {keyword} is not supported")),
        }
    }
    Ok(())
}

fn check(schema: &Value, value: &Value, at: &str, depth: usize, problems: &mut Vec<ArgumentProblem>) {
    let Some(schema) = schema.as_object() else { return };
    let mut problem = |message: String| {
        problems.push(ArgumentProblem { argument: at.to_owned(), message, received: Some(shortened(value)) });
    };
    if depth > DEPTH {
        return problem(format!("argument {at} is nested too deeply"));
    }
    if let Some(expected) = wrong_type(schema.get("type"), value) {
        return problem(format!("argument {at} must be {expected}"));
    }
    if let Some(message) = wrong_value(schema, value) {
        problem(format!("argument {at} {message}"));
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(choices) = schema.get(keyword).and_then(Value::as_array) else { continue };
        let fits = |choice: &&Value| {
            let mut found = Vec::new();
            check(choice, value, at, depth + 1, &mut found);
            found.is_empty()
        };
        let fitting = choices.iter().filter(fits).count();
        if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
            problem(format!("argument {at} has none of the accepted forms"));
        }
    }
    match value {
        Value::Object(object) => check_object(schema, object, at, depth, problems),
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(inner, item, &format!("{at}[{index}]"), depth + 1, problems);
                }
            }
        }
        _ => {}
    }
}

fn check_object(
    schema: &Map<String, Value>,
    object: &Map<String, Value>,
    at: &str,
    depth: usize,
    problems: &mut Vec<ArgumentProblem>,
) {
    let name = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for key in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if !object.contains_key(key) {
            let message = format!("missing required argument: {}", name(key));
            problems.push(ArgumentProblem { argument: name(key), message, received: None });
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, value) in object {
        let known = properties.and_then(|known| known.get(key));
        match known.or_else(|| schema.get("additionalProperties")) {
            Some(Value::Bool(false)) => problems.push(ArgumentProblem {
                argument: name(key),
                message: format!("unknown argument: {}", name(key)),
                received: Some(shortened(value)),
            }),
            Some(inner) => check(inner, value, &name(key), depth + 1, problems),
            None => {}
        }
    }
}

/// The type that was expected, if another one came.
fn wrong_type(expected: Option<&Value>, value: &Value) -> Option<String> {
    let types: Vec<&str> = match expected? {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = |kind: &&str| match *kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => true,
    };
    if types.is_empty() || types.iter().any(fits) {
        return None;
    }
    let whole = value.is_number() && types.contains(&"integer");
    // The contract knows one kind of number.
    let words = types.iter().map(|kind| match *kind {
        "integer" if whole => "a whole number",
        "integer" => "number",
        other => other,
    });
    Some(words.collect::<Vec<_>>().join(" or "))
}

/// What is wrong with a value of the right type.
fn wrong_value(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let known: Vec<_> = choices.iter().map(Value::to_string).collect();
        return Some(format!("must be one of {}", known.join(", ")));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return Some(format!("must be {only}"));
    }
    let number = |keyword| schema.get(keyword).and_then(Value::as_f64);
    let size =
        |keyword| schema.get(keyword).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    match value {
        Value::Number(given) => {
            let given = given.as_f64()?;
            match (number("minimum"), number("maximum")) {
                (Some(least), _) if given < least => Some(format!("must be at least {least}")),
                (_, Some(most)) if given > most => Some(format!("must be at most {most}")),
                _ => None,
            }
        }
        Value::String(text) => {
            let length = text.chars().count();
            match (size("minLength"), size("maxLength")) {
                (Some(least), _) if length < least => Some(format!("must have at least {least} characters")),
                (_, Some(most)) if length > most => Some(format!("must have at most {most} characters")),
                _ => mismatch(schema.get("pattern"), text),
            }
        }
        Value::Array(items) => match (size("minItems"), size("maxItems")) {
            (Some(least), _) if items.len() < least => Some(format!("must have at least {least} items")),
            (_, Some(most)) if items.len() > most => Some(format!("must have at most {most} items")),
            _ => None,
        },
        _ => None,
    }
}

/// A pattern that cannot be read was refused when the schema was loaded; here it lets nothing through.
fn mismatch(pattern: Option<&Value>, text: &str) -> Option<String> {
    let pattern = pattern?.as_str()?;
    let fits = Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
    (!fits).then(|| format!("must match {pattern}"))
}

/// A received value as an error shows it.
fn shortened(value: &Value) -> Value {
    let text = value.to_string();
    if text.chars().count() <= QUOTED {
        return value.clone();
    }
    json!(format!("{}…", text.chars().take(QUOTED).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &Value, args: &Value) -> Vec<String> {
        check_arguments(schema, args).into_iter().map(|problem| problem.message).collect()
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "count": { "type": "integer", "minimum": 1, "maximum": 10 },
                "mode": { "enum": ["a", "b"] },
                "deep": { "type": "object", "properties": { "on": { "type": "boolean" } }, "required": ["on"] },
                "list": { "type": "array", "items": { "type": "string" }, "maxItems": 2 },
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn every_problem_is_told_at_once_with_what_was_received() {
        let args = json!({ "count": 11, "mode": "c", "x": 1, "deep": {}, "list": ["a", 2, "b"] });
        assert_eq!(
            messages(&schema(), &args),
            [
                "missing required argument: path",
                "argument count must be at most 10",
                "argument mode must be one of \"a\", \"b\"",
                "unknown argument: x",
                "missing required argument: deep.on",
                "argument list must have at most 2 items",
                "argument list[1] must be string",
            ]
        );
        let received: Vec<_> =
            check_arguments(&schema(), &args).into_iter().map(|problem| problem.received).collect();
        assert_eq!(received[1], Some(json!(11)));
        assert_eq!(received[0], None);
    }

    #[test]
    fn types_are_named_as_the_contract_names_them() {
        for (value, message) in [
            (json!({ "path": 1 }), "argument path must be string"),
            (json!({ "path": "a", "count": "1" }), "argument count must be number"),
            (json!({ "path": "a", "count": 1.5 }), "argument count must be a whole number"),
            (json!({ "path": "a", "deep": [] }), "argument deep must be object"),
            (json!({ "path": "a", "list": {} }), "argument list must be array"),
            (json!({ "path": "" }), "argument path must have at least 1 characters"),
            (json!([1]), "arguments must be an object"),
            (json!("x"), "arguments must be an object"),
        ] {
            assert_eq!(messages(&schema(), &value), [message], "{value}");
        }
        assert!(messages(&schema(), &json!({ "path": "a", "count": 10, "list": ["x", "y"] })).is_empty());
    }

    #[test]
    fn one_of_several_forms_has_to_fit() {
        let either = |keyword: &str| json!({ "type": "object", "properties": { "v": { keyword: [{ "type": "string" }, { "type": "number" }] } } });
        assert!(messages(&either("anyOf"), &json!({ "v": "a" })).is_empty());
        assert!(messages(&either("oneOf"), &json!({ "v": 1 })).is_empty());
        assert_eq!(
            messages(&either("anyOf"), &json!({ "v": true })),
            ["argument v has none of the accepted forms"]
        );
        let twice =
            json!({ "type": "object", "properties": { "v": { "oneOf": [{ "type": "string" }, {}] } } });
        assert_eq!(messages(&twice, &json!({ "v": "a" })), ["argument v has none of the accepted forms"]);
    }

    #[test]
    fn a_schema_with_a_rule_that_would_not_be_kept_is_refused() {
        assert_eq!(check_schema(&schema()), Ok(()));
        let problem = |schema| check_schema(&schema).unwrap_err();
        assert!(problem(json!({ "type": "string" })).contains("object"));
        let inner = json!({ "type": "object", "properties": { "a": { "multipleOf": 2 } } });
        assert_eq!(problem(inner), "/properties/a/multipleOf: the keyword multipleOf is not supported");
        assert!(
            problem(json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }))
                .contains("pattern")
        );
    }

    #[test]
    fn a_long_value_is_quoted_short_and_deep_nesting_ends() {
        let args = json!({ "path": ["y".repeat(5000)] });
        let received = check_arguments(&schema(), &args).remove(0).received.unwrap().to_string();
        assert!(received.chars().count() < 300, "{received}");
        let mut deep = json!(1);
        let mut deep_schema = json!({ "type": "number" });
        for _ in 0..100 {
            deep = json!({ "a": deep });
            deep_schema = json!({ "type": "object", "properties": { "a": deep_schema } });
        }
        assert!(messages(&deep_schema, &deep)[0].ends_with("is nested too deeply"));
    }
}
