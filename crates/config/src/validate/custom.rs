//! What must hold of a custom tool: one way to run it, arguments that are described, and nothing else filled in.

use serde_json::Value;

use super::suggest;
use super::tools::variable_names;
use super::view::View;
use crate::format::AGENT_ID;
use crate::problem::Problem;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

pub(super) fn check(tools: &View<'_>, found: &mut Vec<Problem>) {
    for (name, tool) in tools.key("custom").iter().flat_map(View::entries) {
        if !(AGENT_ID.accepts)(name) {
            found.push(tool.problem(format!("a tool's name must be {}", AGENT_ID.expected)));
        }
        if tool.value.is_object() {
            one_way_to_run(&tool, found);
        }
        let arguments = schema(&tool, found);
        places(&tool, &arguments, found);
        if let Some(env) = tool.key("env") {
            variable_names(&env, found);
        }
    }
}

fn one_way_to_run(tool: &View<'_>, found: &mut Vec<Problem>) {
    let command = tool.key("command");
    let words = command.as_ref().map_or(0, |command| command.items().count());
    match (words, tool.key("http")) {
        (0, None) => {
            found.push(tool.problem("a tool runs a command or makes a request: give it `command` or `http`"));
        }
        (1.., Some(_)) => found.push(tool.problem("a tool runs a command or makes a request, not both")),
        _ => {}
    }
    if let Some(program) = command.as_ref().and_then(|command| command.items().next())
        && program.text().is_some_and(|text| text.is_empty() || text.contains("{{"))
    {
        found.push(program.problem("the program itself must be fixed; an argument cannot choose it"));
    }
    let Some(http) = tool.key("http") else { return };
    if let Some(method) = http.key("method")
        && method.text().is_some_and(|text| !METHODS.contains(&text.to_uppercase().as_str()))
    {
        found.push(method.problem(format!("expected one of {}, got {}", METHODS.join(", "), method.shown())));
    }
    if let Some(url) = http.key("url") {
        address(&url, found);
    }
}

/// An argument may fill in a part of the path, never the host: else the tool reaches wherever a model wants.
fn address(url: &View<'_>, found: &mut Vec<Problem>) {
    let Some(text) = url.text().filter(|text| !text.is_empty()) else { return };
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None | Some("") => {
            found.push(url.problem(format!("expected an address as https://host/path, got {}", url.shown())));
        }
        Some(host) if host.contains("{{") => {
            found.push(url.problem("the host must be fixed; an argument can only fill in what follows it"));
        }
        Some(host) if host.contains('@') => {
            found.push(url.problem("a name or password does not belong into an address; send a header"));
        }
        Some(_) => {}
    }
}

/// Checks the schema and answers with the arguments it describes.
fn schema<'v>(tool: &View<'v>, found: &mut Vec<Problem>) -> Vec<&'v str> {
    let Some(schema) = tool.key("schema").filter(|schema| schema.value.is_object()) else {
        return Vec::new();
    };
    if schema.entries().next().is_none() {
        return Vec::new();
    }
    if schema.value.get("type").and_then(Value::as_str) != Some("object") {
        found.push(schema.problem("the schema must be one of an object: write type: \"object\""));
    }
    if contains_reference(schema.value) {
        found.push(schema.problem("the schema must say everything itself, without $ref"));
    }
    let properties = schema.key("properties");
    if let Some(properties) = properties.as_ref().filter(|properties| !properties.value.is_object()) {
        found.push(properties.problem("expected an object with a schema for each argument"));
    }
    let names: Vec<&str> = properties.iter().flat_map(View::entries).map(|(name, _)| name).collect();
    for (name, property) in properties.iter().flat_map(View::entries) {
        if !property.value.is_object() {
            found.push(property.problem(format!("expected the schema of the argument {name:?}")));
        }
    }
    for required in schema.key("required").iter().flat_map(View::items) {
        match required.text() {
            Some(name) if names.contains(&name) => {}
            _ => found.push(required.problem(format!("{} is not one of the properties", required.shown()))),
        }
    }
    names
}

fn contains_reference(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(contains_reference),
        Value::Array(items) => items.iter().any(contains_reference),
        _ => false,
    }
}

/// Every text inside a value.
fn texts_of(value: View<'_>) -> Vec<View<'_>> {
    if value.value.is_string() {
        return vec![value];
    }
    let inside: Vec<_> = value.entries().map(|(_, child)| child).chain(value.items()).collect();
    inside.into_iter().flat_map(texts_of).collect()
}

/// Every `{{name}}` must be an argument.
fn places(tool: &View<'_>, arguments: &[&str], found: &mut Vec<Problem>) {
    let mut texts: Vec<View<'_>> = tool.key("command").iter().flat_map(View::items).collect();
    if let Some(http) = tool.key("http") {
        texts.extend(http.key("url"));
        texts.extend(http.key("body").into_iter().flat_map(texts_of));
        texts.extend(http.key("headers").iter().flat_map(View::entries).map(|(_, header)| header));
    }
    for text in texts {
        let mut rest = text.text().unwrap_or_default();
        while let Some((_, after)) = rest.split_once("{{") {
            let Some((name, behind)) = after.split_once("}}") else {
                found.push(text.problem("{{ without }}"));
                break;
            };
            let name = name.trim();
            if !arguments.contains(&name) {
                let meant = suggest::nearest(name, arguments.iter().copied());
                let message = format!("{{{{{name}}}}} is not one of the properties of the schema");
                found.push(text.problem(message).suggesting(meant));
            }
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(custom: &Value) -> Vec<String> {
        let document = json!({"custom": custom});
        let mut found = Vec::new();
        check(&View::new(&document, &document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tool_runs_in_one_way_that_no_argument_chooses() {
        let custom = json!({
            "Bad Name": {"command": ["/bin/true"]},
            "neither": {},
            "both": {"command": ["/bin/true"], "http": {"url": "https://h"}},
            "program": {"command": ["{{x}}"], "schema": {"type": "object", "properties": {"x": {}}}},
            "host": {"http": {"url": "https://{{x}}.org/", "method": "TRACE"}, "schema": {"type": "object", "properties": {"x": {}}}},
            "user": {"http": {"url": "https://u:p@h/", "method": "post"}},
            "file": {"http": {"url": "file:///etc/passwd"}},
        });
        assert_eq!(
            complaints(&custom),
            [
                "custom.Bad Name: a tool's name must be a name of 1 to 64 lower-case letters, digits, - and _, with a letter or digit first",
                "custom.neither: a tool runs a command or makes a request: give it `command` or `http`",
                "custom.both: a tool runs a command or makes a request, not both",
                "custom.program.command[0]: the program itself must be fixed; an argument cannot choose it",
                r#"custom.host.http.method: expected one of GET, HEAD, POST, PUT, PATCH, DELETE, got "TRACE""#,
                "custom.host.http.url: the host must be fixed; an argument can only fill in what follows it",
                "custom.user.http.url: a name or password does not belong into an address; send a header",
                r#"custom.file.http.url: expected an address as https://host/path, got "file:///etc/passwd""#,
            ]
        );
    }

    #[test]
    fn a_schema_describes_an_object_and_every_place_that_is_filled() {
        let custom = json!({
            "fine": {"command": ["/bin/echo", "--to={{ to }}", "{{text}}"],
                "schema": {"type": "object", "properties": {"to": {"type": "string"}, "text": {}}, "required": ["to"]}},
            "none": {"command": ["/bin/true"], "schema": {}},
            "list": {"command": ["/bin/true"], "schema": {"type": "array"}},
            "wrong": {"command": ["/bin/echo", "{{texx}}", "{{open"],
                "schema": {"type": "object", "properties": {"text": {"$ref": "#/x"}, "b": 1}, "required": ["c", 2]}},
            "web": {"http": {"url": "https://h/{{q}}", "body": "{{b}}", "headers": {"x": "{{h}}"}}},
            "json": {"http": {"url": "https://h", "body": {"a": [{"b": "{{n}}"}], "c": 1}}},
            "env": {"command": ["/bin/true"], "env": {"A B": "x"}},
        });
        assert_eq!(
            complaints(&custom),
            [
                "custom.list.schema: the schema must be one of an object: write type: \"object\"",
                "custom.wrong.schema: the schema must say everything itself, without $ref",
                "custom.wrong.schema.properties.b: expected the schema of the argument \"b\"",
                r#"custom.wrong.schema.required[0]: "c" is not one of the properties"#,
                "custom.wrong.schema.required[1]: 2 is not one of the properties",
                r#"custom.wrong.command[1]: {{texx}} is not one of the properties of the schema, did you mean "text"?"#,
                "custom.wrong.command[2]: {{ without }}",
                "custom.web.http.url: {{q}} is not one of the properties of the schema",
                "custom.web.http.body: {{b}} is not one of the properties of the schema",
                "custom.web.http.headers.x: {{h}} is not one of the properties of the schema",
                "custom.json.http.body.a[0].b: {{n}} is not one of the properties of the schema",
                "custom.env.env.A B: a variable's name has letters, digits and _, with no digit first",
            ]
        );
    }
}
