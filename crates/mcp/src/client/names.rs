//! What a server's tools are called here, and what is shown of what the server says about them. Pure.
//!
//! Everything a server says about its tools is text from outside that a model will read: it is made inert and kept short,
//! and there is a limit on how much of it there can be.

use std::collections::BTreeSet;

use rmcp::model::Tool as Listed;
use serde_json::{Map, Value, json};
use tidegate_policy::Digest;
use tidegate_policy::inert::inert;
use tidegate_tools::truncate;

use super::spec::ToolFilter;

/// Tools of one server.
pub(crate) const MOST_TOOLS: usize = 128;
/// Bytes of a description.
const LONGEST_DESCRIPTION: usize = 2 * 1024;
/// Bytes of a schema.
const LARGEST_SCHEMA: usize = 32 * 1024;
/// Bytes of one text inside a schema.
const LONGEST_TEXT: usize = 1024;
/// How deep a schema may nest.
const DEPTH: usize = 24;
/// Models take names of 64 characters.
const LONGEST_NAME: usize = 64;

/// A tool as it is shown.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    /// `mcp.<server>.<tool>`
    pub(crate) name: String,
    /// What the server calls it.
    pub(crate) remote: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// The server says that it changes nothing.
    pub(crate) read_only: bool,
    /// The server says that twice is the same as once.
    pub(crate) idempotent: bool,
}

/// A tool that cannot be had, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    pub tool: String,
    pub why: String,
}

/// What is shown of what a server listed, by name.
pub(crate) fn shown(server: &str, filter: &ToolFilter, listed: &[Listed]) -> (Vec<Shown>, Vec<LeftOut>) {
    let (mut tools, mut left_out) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    let mut sorted: Vec<&Listed> = listed.iter().filter(|tool| filter.lets(&tool.name)).collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut last: Option<&str> = None;
    for tool in sorted {
        let mut leave = |why: &str| {
            let tool = tidegate_policy::inert::inert_line(truncate::head_bytes(&tool.name, LONGEST_NAME));
            left_out.push(LeftOut { tool, why: why.to_owned() });
        };
        if last.replace(&tool.name) == Some(&tool.name) {
            leave("the server lists it twice");
            continue;
        }
        if tools.len() == MOST_TOOLS {
            leave("the server has more tools than can be shown");
            continue;
        }
        let schema = match schema(&tool.input_schema) {
            Ok(schema) => schema,
            Err(why) => {
                leave(why);
                continue;
            }
        };
        let name = name(server, &tool.name, &names);
        names.insert(name.to_lowercase());
        let hints = tool.annotations.as_ref();
        let read_only = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
        tools.push(Shown {
            name,
            remote: tool.name.to_string(),
            description: description(tool),
            schema,
            read_only,
            idempotent: read_only || hints.is_some_and(rmcp::model::ToolAnnotations::is_idempotent),
        });
    }
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    (tools, left_out)
}

/// A name that models and rules can write. Where the tool's own had to be changed, or is taken in another case, a part
/// of its digest keeps it apart from others.
fn name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let start = format!("mcp.{server}.");
    let room = LONGEST_NAME.saturating_sub(start.len());
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let wanted: String = tool.chars().map(plain).collect();
    let whole = format!("{start}{wanted}");
    if wanted == tool && !tool.is_empty() && wanted.len() <= room && !taken.contains(&whole.to_lowercase()) {
        return whole;
    }
    let digest: String = Digest::of_text(tool).as_str().chars().take(8).collect();
    let short: String = wanted.chars().take(room.saturating_sub(digest.len() + 1)).collect();
    format!("{start}{short}_{digest}")
}

fn description(tool: &Listed) -> String {
    let said = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let said = if said.trim().is_empty() { tool.name.as_ref() } else { said };
    bounded(said.trim(), LONGEST_DESCRIPTION)
}

fn bounded(text: &str, most: usize) -> String {
    let text = inert(truncate::head_bytes(text, most));
    if text.len() <= most { text } else { format!("{}…", truncate::head_bytes(&text, most)) }
}

fn schema(said: &Map<String, Value>) -> Result<Value, &'static str> {
    let mut schema = Value::Object(said.clone());
    if schema.to_string().len() > LARGEST_SCHEMA {
        return Err("its schema is too large");
    }
    match schema.get("type") {
        None => schema["type"] = json!("object"),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err("its schema is not one of an object"),
    }
    tidy(&mut schema, 0)?;
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.entry("properties").or_insert_with(|| json!({}));
    }
    Ok(schema)
}

/// Makes every text inert. A name that is not plain cannot be passed on, so the tool cannot be called.
fn tidy(value: &mut Value, depth: usize) -> Result<(), &'static str> {
    if depth > DEPTH {
        return Err("its schema nests too deep");
    }
    match value {
        Value::String(text) => *text = bounded(text, LONGEST_TEXT),
        Value::Array(items) => items.iter_mut().try_for_each(|item| tidy(item, depth + 1))?,
        Value::Object(fields) => {
            if fields.keys().any(|name| name.len() > LONGEST_NAME * 2 || inert(name) != *name) {
                return Err("its schema has names that cannot be shown");
            }
            fields.values_mut().try_for_each(|field| tidy(field, depth + 1))?;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(value: Value) -> Vec<Listed> {
        serde_json::from_value(value).unwrap()
    }

    fn names(listed: &[Listed]) -> Vec<String> {
        shown("s", &ToolFilter::default(), listed).0.into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn tools_are_called_after_their_server_in_the_order_of_their_names() {
        let tools = listed(json!([
            {"name": "write_file", "inputSchema": {"type": "object"}},
            {"name": "echo", "inputSchema": {}},
        ]));
        assert_eq!(names(&tools), ["mcp.s.echo", "mcp.s.write_file"]);
        let (tools, _) = shown("s", &ToolFilter::default(), &tools);
        assert_eq!(tools[0].schema, json!({"type": "object", "properties": {}}));
        assert_eq!(tools[0].description, "echo");
    }

    #[test]
    fn names_stay_apart_whatever_a_server_calls_its_tools() {
        let long = "x".repeat(200);
        let odd = ["a b", "a/b", "A_b", "a_b", "exec", "", "..", long.as_str(), "\u{202e}txt", "ä"];
        let tools: Vec<_> = odd.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
        let names = names(&listed(json!(tools)));
        assert_eq!(names.len(), odd.len());
        let mut lower: Vec<_> = names.iter().map(|name| name.to_lowercase()).collect();
        lower.sort();
        lower.dedup();
        assert_eq!(lower.len(), odd.len(), "{names:?}");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        assert!(
            names
                .iter()
                .all(|name| name.len() <= 64 && name.starts_with("mcp.s.") && name.chars().all(plain))
        );
    }

    #[test]
    fn what_a_server_says_of_itself_is_inert_and_short() {
        let said = format!("good\u{202e}evil\u{1b}[2J {}", "y".repeat(10_000));
        let tools = listed(json!([{"name": "t", "description": said, "inputSchema":
            {"type": "object", "properties": {"a": {"type": "string", "description": said}}}}]));
        let (tools, left_out) = shown("s", &ToolFilter::default(), &tools);
        assert_eq!(left_out, []);
        let inside = tools[0].schema["properties"]["a"]["description"].as_str().unwrap();
        for text in [tools[0].description.as_str(), inside] {
            assert!(text.len() < LONGEST_DESCRIPTION + 10, "{}", text.len());
            assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_left_out_with_its_reason() {
        let mut deep = json!({"type": "object"});
        for _ in 0..40 {
            deep = json!({"type": "object", "properties": {"x": deep}});
        }
        let tools = listed(json!([
            {"name": "a_array", "inputSchema": {"type": "array"}},
            {"name": "b_large", "inputSchema": {"type": "object", "description": "z".repeat(LARGEST_SCHEMA)}},
            {"name": "c_deep", "inputSchema": deep},
            {"name": "d_name", "inputSchema": {"type": "object", "properties": {"\u{202e}x": {}}}},
            {"name": "e_fine", "inputSchema": {"type": "object"}},
            {"name": "e_fine", "inputSchema": {"type": "object"}},
        ]));
        let (tools, left_out) = shown("s", &ToolFilter::default(), &tools);
        assert_eq!(tools.len(), 1);
        let why: Vec<_> = left_out.iter().map(|left| (left.tool.as_str(), left.why.as_str())).collect();
        assert_eq!(
            why,
            [
                ("a_array", "its schema is not one of an object"),
                ("b_large", "its schema is too large"),
                ("c_deep", "its schema nests too deep"),
                ("d_name", "its schema has names that cannot be shown"),
                ("e_fine", "the server lists it twice"),
            ]
        );
        let many: Vec<_> = (0..200).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}})).collect();
        let (tools, left_out) = shown("s", &ToolFilter::default(), &listed(json!(many)));
        assert_eq!((tools.len(), left_out.len()), (MOST_TOOLS, 200 - MOST_TOOLS));
    }
}
