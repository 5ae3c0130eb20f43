//! The conformance vectors of the config, each run against the function that has that job here.
//!
//! A case where ours differs on purpose stands in [`DIFFERENT_ON_PURPOSE`] with the reason and our own answer; a
//! row that no longer matches a case fails, so the table cannot rot.

use std::cell::Cell;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::env::Env;
use crate::path::{self, KeyPath};
use crate::value::{ValueError, parse_value};
use crate::{include, substitute};

const VECTORS: &str = include_str!("../../testkit/fixtures/vectors/config.json");

/// Group, input as JSON text, our answer as JSON text, reason.
const DIFFERENT_ON_PURPOSE: [(&str, &str, &str, &str); 4] = [
    (
        "env_subst",
        r#""${A:-x}""#,
        r#""one""#,
        "a default is part of our grammar; upstream leaves the text as it is",
    ),
    (
        "config_path_set",
        r#"{"root": {"a": [1, 2]}, "path": ["a", "0"], "value": 9}"#,
        r#"{"a": [9, 2]}"#,
        "an index edits the element; upstream turns the list into an object and loses the rest",
    ),
    ("config_value", r#""\"""#, r#"{"value": "\""}"#, "a lone quote is text; upstream drops it"),
    (
        "config_value",
        r#""12345678901234567890""#,
        r#"{"value": 12345678901234567890}"#,
        "an integer keeps its digits; upstream rounds to a double",
    ),
];

/// Runs every case of a group and compares whole answers.
fn run(group: &str, answer: impl Fn(&Value) -> Value) {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors[group].as_array().unwrap();
    let table: Vec<_> = DIFFERENT_ON_PURPOSE.iter().filter(|row| row.0 == group).collect();
    let differing = Cell::new(0);
    for case in cases {
        let asked = case["in"].get("env").map_or(&case["in"], |_| &case["in"]["value"]);
        let ours = table.iter().find(|row| serde_json::from_str::<Value>(row.1).unwrap() == *asked);
        let expected = match ours {
            Some(row) => {
                differing.set(differing.get() + 1);
                serde_json::from_str(row.2).unwrap()
            }
            None => case.get("out").or_else(|| case["err"].get("message")).unwrap().clone(),
        };
        assert_eq!(answer(&case["in"]), expected, "{group}: {}", case["in"]);
        assert!(
            ours.is_some() || case.get("upstream_defect").is_none(),
            "a defect that is not ours to repeat: {case}"
        );
    }
    assert_eq!(differing.get(), table.len(), "a row of {group} matches no case");
    assert!(!cases.is_empty());
}

fn key_path(case: &Value) -> KeyPath {
    KeyPath::from_segments(case["path"].as_array().unwrap().iter().map(|s| s.as_str().unwrap())).unwrap()
}

#[test]
fn env_subst_and_our_default_in_a_reference() {
    run("env_subst", |case| {
        let env = case["env"].as_object().unwrap();
        let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect::<Env>();
        let (resolved, missing) = substitute::substitute(&case["value"], &env);
        missing.first().map_or(resolved, |problem| json!(problem.message))
    });
}

#[test]
fn include() {
    run("include", |case| {
        let read = |file: &Path| match case["files"].get(file.to_str().unwrap()) {
            Some(text) => Ok(text.as_str().unwrap().to_owned()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let included =
            include::resolve(&case["config"], Path::new(case["configPath"].as_str().unwrap()), &read);
        // A file that cannot be read in has its details first and the recorded message last.
        included.problems.last().map_or(included.document, |problem| json!(problem.message))
    });
}

#[test]
fn config_path_parse() {
    run("config_path_parse", |case| match case.as_str().unwrap().parse::<KeyPath>() {
        Ok(path) => json!({"ok": true, "path": path.segments()}),
        Err(error) => json!({"ok": false, "error": error.to_string()}),
    });
}

#[test]
fn config_path_set_and_our_list_element() {
    run("config_path_set", |case| {
        let mut root = case["root"].clone();
        path::set(&mut root, &key_path(case), case["value"].clone()).unwrap();
        root
    });
}

#[test]
fn config_path_unset() {
    run("config_path_unset", |case| {
        let mut root = case["root"].clone();
        let removed = path::unset(&mut root, &key_path(case));
        json!({"removed": removed, "root": root})
    });
}

#[test]
fn config_path_get() {
    run("config_path_get", |case| path::get(&case["root"], &key_path(case)).cloned().unwrap_or_default());
}

#[test]
fn config_value_and_our_exact_numbers() {
    run("config_value", |case| match parse_value(case.as_str().unwrap()) {
        Ok(value) => json!({"value": value}),
        // Only the prefix of a JSON error is recorded.
        Err(error @ ValueError::InvalidJson(_)) => {
            let prefix = "Invalid JSON: SyntaxError";
            assert!(error.to_string().starts_with(prefix));
            json!({"error_prefix": prefix})
        }
        Err(error) => json!({"error": error.to_string()}),
    });
}
