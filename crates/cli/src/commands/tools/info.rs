//! `tools info`: one tool, its arguments, and how it runs.

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use tidegate_policy::tools::Decision;
use tidegate_tools::ToolSpec;

use super::fit::paragraph;
use super::list::spec_json;
use super::{Known, decided_json, fitted, risk, verdict};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::failure::Failure;
use crate::output::{print, print_json, print_line, printable};
use crate::texts::tools as words;

pub(in crate::commands) fn info(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let spec = known.find(app, &parsed.arguments[0])?;
    let decision = known.outline(spec);
    if parsed.has("json") || !app.output.terminal {
        let mut value = spec_json(spec);
        value["runtime"] = runtime_json(spec, &decision);
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    sheet(app, &known, spec, &decision)?;
    Ok(ExitCode::SUCCESS)
}

fn runtime_json(spec: &ToolSpec, decision: &Decision) -> Value {
    json!({
        "aliases": spec.aliases,
        "risk": spec.risk,
        "idempotent": spec.idempotent,
        "timeoutMs": spec.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        "defaults": defaults(&spec.input_schema),
        "verdict": decided_json(decision),
    })
}

/// What arguments are when a call leaves them out.
fn defaults(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let defaults = properties.filter_map(|(name, property)| {
        let default = property.get("default").filter(|default| !default.is_null())?;
        Some((name.clone(), default.clone()))
    });
    defaults.collect()
}

fn sheet(app: &App, known: &Known, spec: &ToolSpec, decision: &Decision) -> Result<(), Failure> {
    let agent = known.scope.agent.as_str();
    print_line(&format!("{}\n", paragraph(app, &printable(&spec.description))))?;
    let timeout = match spec.timeout {
        Some(timeout) => format!("{} s", timeout.as_secs_f64()),
        None => app.say(words::OWN_TIME).to_owned(),
    };
    let again = if spec.idempotent { words::AGAIN_SAME } else { words::AGAIN_DIFFERS };
    let mut lines = vec![vec![app.say(words::INFO_NAME).to_owned(), printable(&spec.name)]];
    if !spec.aliases.is_empty() {
        lines.push(vec![app.say(words::INFO_ALIASES).to_owned(), printable(&spec.aliases.join(", "))]);
    }
    lines.extend([
        vec![app.say(words::INFO_RISK).to_owned(), app.say(risk(spec.risk)).to_owned()],
        vec![app.say(words::INFO_AGAIN).to_owned(), app.say(again).to_owned()],
        vec![app.say(words::INFO_TIMEOUT).to_owned(), timeout],
        vec![
            app.fill(words::INFO_VERDICT, &[("agent", &agent)]),
            format!("{} ({})", app.say(verdict(decision.verdict)), printable(&decision.rule)),
        ],
    ]);
    print(&fitted(app, &lines))?;
    let arguments = arguments(app, &spec.input_schema);
    if arguments.is_empty() {
        return print_line(&format!("\n{}", app.say(words::NO_ARGUMENTS)));
    }
    print_line(&format!("\n{}", app.output.bold(app.say(words::INFO_ARGUMENTS))))?;
    let titles = app.say(words::ARGUMENT_TITLES).split(',').map(|title| app.output.dim(title)).collect();
    print(&fitted(app, &[vec![titles], arguments].concat()))?;
    let example = app.fill(
        words::INFO_EXAMPLE,
        &[
            ("program", &app.program),
            ("tool", &printable(&spec.name)),
            ("args", &example(&spec.input_schema)),
        ],
    );
    print_line(&format!("\n{}", app.output.dim(&example)))
}

/// A call with what it must have, to be filled in.
fn example(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match kind(&schema["properties"][name]).as_str() {
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "array" => json!([]),
        "object" => json!({}),
        choices if choices.contains(" | ") => choices.split(" | ").next().unwrap_or_default().into(),
        _ => "…".into(),
    };
    required.map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>().into()
}

fn arguments(app: &App, schema: &Value) -> Vec<Vec<String>> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let row = |(name, property): (&String, &Value)| {
        let default = match &property["default"] {
            _ if required.contains(&name.as_str()) => app.say(words::REQUIRED).to_owned(),
            Value::Null => String::new(),
            default => default.to_string(),
        };
        let about = property["description"].as_str().unwrap_or_default().replace('\n', " ");
        vec![printable(name), kind(property), printable(&default), printable(&about)]
    };
    properties.map(row).collect()
}

/// The type of an argument, without the null that means "not given".
fn kind(property: &Value) -> String {
    let choices: Vec<_> =
        property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !choices.is_empty() {
        return choices.join(" | ");
    }
    match &property["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.collect::<Vec<_>>().join(" | ")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_schema() {
        let schema = json!({"properties": {
            "path": {"type": "string"}, "maxBytes": {"type": "integer", "default": 204_800}, "x": {"default": null},
        }});
        assert_eq!(Value::Object(defaults(&schema)), json!({"maxBytes": 204_800}));
    }

    #[test]
    fn an_example_has_what_a_call_must_have() {
        let schema = json!({
            "properties": {
                "path": {"type": "string"}, "n": {"type": ["integer", "null"]},
                "how": {"enum": ["list", "kill"]}, "not": {"type": "string"},
            },
            "required": ["path", "n", "how"],
        });
        assert_eq!(example(&schema), json!({"path": "…", "n": 1, "how": "list"}));
    }

    #[test]
    fn an_argument_that_may_be_left_out_has_its_plain_type() {
        assert_eq!(kind(&json!({"type": ["integer", "null"]})), "integer");
        assert_eq!(kind(&json!({"type": "string", "enum": ["a", "b"]})), "a | b");
    }
}
