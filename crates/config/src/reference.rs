//! The reference of all keys, written from the schema so that it cannot be out of date.

use std::fmt::Write as _;

use serde_json::Value;

use crate::shape::{self, Node, Shape};
use crate::validate::is_unused;

const HEAD: &str = "\
# Config reference

<!-- Generated from the key structs in crates/config/src/schema. Change those, then run
     TIDEGATE_BLESS=1 cargo test -p tidegate-config -->

Tidegate reads one file, `config.json5`, in its home folder. It is JSON5: comments, trailing commas and keys
without quotes are fine. An unknown key, a wrong type or a key that is there twice is an error, and all errors
are reported together.

- `\"$include\": \"other.json5\"`, or a list of files, stands for the content of other files, relative to the
  including one. Listed files are merged from left to right, lists are joined, and the keys beside `$include`
  win. At most ten files deep.
- `${VAR}` in a string is replaced by an environment variable; unset or empty is an error. `${VAR:-default}` has
  a default, and `$${VAR}` is the literal text. Names are upper case, and a value is always text.
- A key marked as not used is accepted, and a warning says that it has no effect yet.
- A secret is shown as `[redacted]` wherever the config is shown.

`<name>` stands for a name of your choice, `[]` for every element of a list.
";

/// All keys with type, default and meaning, as Markdown.
pub fn reference_markdown() -> String {
    let mut page = HEAD.to_owned();
    let Shape::Object { keys, .. } = &shape::root().shape else { return page };
    for (name, section) in keys {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {name}\n\n{}\n", section.description);
        let mut rows = Vec::new();
        rows_of(name, section, false, &mut rows);
        if matches!(section.shape, Shape::Object { .. }) {
            rows.remove(0);
        }
        page.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
        for [key, kind, default, meaning] in rows {
            let _ = writeln!(page, "| {key} | {kind} | {default} | {meaning} |");
        }
    }
    page
}

fn rows_of(path: &str, node: &Node, required: bool, rows: &mut Vec<[String; 4]>) {
    let default = match &node.default {
        _ if required => "required".to_owned(),
        Some(Value::Object(_)) | None => String::new(),
        Some(default) => format!("`{default}`"),
    };
    let note = if is_unused(path) { " *Not used by this version.*" } else { "" };
    rows.push([format!("`{path}`"), kind(node), default, meaning(node) + note]);
    below(path, node, rows);
}

fn below(path: &str, node: &Node, rows: &mut Vec<[String; 4]>) {
    match &node.shape {
        Shape::Object { keys, required } => {
            for (key, child) in keys {
                rows_of(&format!("{path}.{key}"), child, required.contains(key), rows);
            }
        }
        Shape::List(child) => below(&format!("{path}[]"), child, rows),
        Shape::Map(child) => below(&format!("{path}.<name>"), child, rows),
        _ => {}
    }
}

fn kind(node: &Node) -> String {
    let name = match &node.shape {
        Shape::Text { .. } | Shape::Choice(_) => "string".to_owned(),
        Shape::Integer { min, max } if *max < i64::from(u32::MAX) => format!("integer, {min} to {max}"),
        Shape::Integer { min: 0, .. } => "integer".to_owned(),
        Shape::Integer { min, .. } => format!("integer, at least {min}"),
        Shape::Number { min: Some(min), max: Some(max) } => format!("number, {min} to {max}"),
        Shape::Number { .. } => "number".to_owned(),
        Shape::Boolean => "boolean".to_owned(),
        Shape::List(child) => format!("list of {}", kind(child)),
        Shape::Map(child) => format!("map of {}", kind(child)),
        Shape::Object { .. } | Shape::Open | Shape::Unknown => "object".to_owned(),
        Shape::Either(branches) => branches.iter().map(kind).collect::<Vec<_>>().join(" or "),
    };
    if node.sensitive { format!("{name} (secret)") } else { name }
}

fn meaning(node: &Node) -> String {
    let mut meaning = node.description.replace('|', "\\|");
    if let Shape::Choice(choices) = &node.shape {
        for choice in choices {
            let _ = write!(meaning, "<br>`{}`: {}", choice.value, choice.description);
        }
    }
    meaning
}
