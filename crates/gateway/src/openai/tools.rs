//! The tools a program brings along, as both interfaces write them. Pure.

use serde_json::{Value, json};
use tidegate_protocol::{Brought, BroughtChoice, BroughtTool};

use super::error::invalid;
use crate::answer::Refusal;

/// Tools at most.
const MOST: usize = 128;

/// Reads `tools` and `tool_choice` into what is brought.
pub(super) fn read(tools: &[Value], choice: Option<&Value>, brought: &mut Brought) -> Result<(), Refusal> {
    if tools.len() > MOST {
        return Err(invalid("tools", format!("there may be {MOST} tools")));
    }
    let mut found: Vec<BroughtTool> = Vec::with_capacity(tools.len());
    for (at, tool) in tools.iter().enumerate() {
        let tool = read_tool(at, tool)?;
        if found.iter().any(|known| known.name == tool.name) {
            return Err(invalid("tools", format!("there are two tools called {:?}", tool.name)));
        }
        found.push(tool);
    }
    brought.choice = read_choice(choice, &found)?;
    // Who wants no call does not offer any.
    if choice.and_then(Value::as_str) != Some("none") {
        brought.tools = found;
    }
    Ok(())
}

fn read_tool(at: usize, tool: &Value) -> Result<BroughtTool, Refusal> {
    let place = |rest: &str| format!("tools[{at}]{rest}");
    match tool["type"].as_str() {
        Some("function") => {}
        other => {
            let other = other.unwrap_or("nothing");
            let message = format!("only tools of type `function` can be brought along, not {other}");
            return Err(invalid(&place(".type"), message));
        }
    }
    let function = if tool["function"].is_object() { &tool["function"] } else { tool };
    let name = function["name"].as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let message = "a tool's name has 1 to 64 letters, digits, `_` or `-`";
        return Err(invalid(&place(".function.name"), message));
    }
    let parameters = match &function["parameters"] {
        Value::Null => json!({"type": "object", "properties": {}}),
        schema @ Value::Object(_) => schema.clone(),
        _ => return Err(invalid(&place(".function.parameters"), "the parameters are a JSON Schema")),
    };
    let description = function["description"].as_str().unwrap_or_default().to_owned();
    Ok(BroughtTool { name: name.to_owned(), description, parameters })
}

fn read_choice(choice: Option<&Value>, tools: &[BroughtTool]) -> Result<BroughtChoice, Refusal> {
    let named = match choice {
        None | Some(Value::Null) => return Ok(BroughtChoice::Free),
        Some(Value::String(word)) => {
            return match word.as_str() {
                "auto" | "none" => Ok(BroughtChoice::Free),
                "required" if tools.is_empty() => {
                    Err(invalid("tool_choice", "`required` needs at least one tool in `tools`"))
                }
                "required" => Ok(BroughtChoice::Some),
                _ => Err(invalid("tool_choice", "it is one of auto, none, required, or a function")),
            };
        }
        Some(value) if value["type"] == "allowed_tools" => return Ok(BroughtChoice::Free),
        Some(value) => value["function"]["name"].as_str().or_else(|| value["name"].as_str()),
    };
    match named {
        Some(name) if tools.iter().any(|tool| tool.name == name) => Ok(BroughtChoice::Named(name.to_owned())),
        _ => Err(invalid("tool_choice", "it names no function of `tools`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brought(tools: &Value, choice: &Value) -> Result<Brought, Refusal> {
        let mut brought = Brought::default();
        read(tools.as_array().unwrap(), Some(choice), &mut brought).map(|()| brought)
    }

    #[test]
    fn both_ways_to_write_a_tool_are_read() {
        let schema = json!({"type": "object"});
        let nested =
            json!({"type": "function", "function": {"name": "a", "description": "d", "parameters": schema}});
        let flat = json!({"type": "function", "name": "b", "parameters": null, "strict": true});
        let read =
            brought(&json!([nested, flat]), &json!({"type": "function", "function": {"name": "b"}})).unwrap();
        let names: Vec<_> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(read.choice, BroughtChoice::Named("b".to_owned()));
        assert!(brought(&json!([nested]), &json!("none")).unwrap().tools.is_empty());
        assert_eq!(brought(&json!([nested]), &json!("required")).unwrap().choice, BroughtChoice::Some);
    }

    #[test]
    fn what_nobody_can_run_is_refused() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        for (tools, choice) in [
            (json!([{"type": "web_search"}]), json!("auto")),
            (json!([tool("")]), json!("auto")),
            (json!([tool("a b")]), json!("auto")),
            (json!([tool("a"), tool("a")]), json!("auto")),
            (json!([{"type": "function", "function": {"name": "a", "parameters": "x"}}]), json!("auto")),
            (json!([]), json!("required")),
            (json!([tool("a")]), json!("sometimes")),
            (json!([tool("a")]), json!({"type": "function", "name": "b"})),
        ] {
            assert!(brought(&tools, &choice).is_err(), "{tools} {choice}");
        }
    }
}
