//! What must hold of an MCP server: a name that fits into a tool's name, and one way to reach it.

use super::tools::variable_names;
use super::view::View;
use crate::format::AGENT_ID;
use crate::problem::Problem;

/// A tool is called `mcp.<server>.<tool>`, and models take names of 64 characters.
const LONGEST_NAME: usize = 32;
/// Keys that mean something for a program only, and for an address only.
const OF_COMMAND: [&str; 4] = ["args", "env", "cwd", "sandbox"];
const OF_URL: [&str; 2] = ["headers", "oauth"];

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    for (name, server) in root.at(&["mcp", "servers"]).iter().flat_map(View::entries) {
        if !(AGENT_ID.accepts)(name) || name.len() > LONGEST_NAME {
            found.push(server.problem(format!(
                "a server's name must be 1 to {LONGEST_NAME} lower-case letters, digits, - and _, with a letter or digit first"
            )));
        }
        if server.value.is_object() {
            one_way_to_reach(&server, found);
        }
        if let Some(env) = server.key("env") {
            variable_names(&env, found);
        }
        if let Some(sandbox) = server.key("sandbox") {
            whole_paths(&sandbox, found);
        }
    }
}

/// What is shown has no folder that it could be relative to.
fn whole_paths(sandbox: &View<'_>, found: &mut Vec<Problem>) {
    for list in ["read", "write"].iter().filter_map(|key| sandbox.key(key)) {
        for path in list.items() {
            if path.text().is_some_and(|text| !text.starts_with('/')) {
                found.push(path.problem(format!("expected a path that begins with /, got {}", path.shown())));
            }
        }
    }
}

fn one_way_to_reach(server: &View<'_>, found: &mut Vec<Problem>) {
    let (command, url) = (server.key("command"), server.key("url"));
    let senseless = match (&command, &url) {
        (None, None) => {
            found.push(server.problem(
                "a server is a program or an address: give it `command` or `url`, or write it with `tidegate mcp add`",
            ));
            return;
        }
        (Some(_), Some(_)) => {
            found.push(server.problem("a server is a program or an address, not both"));
            return;
        }
        (Some(_), None) => &OF_URL[..],
        (None, Some(_)) => &OF_COMMAND[..],
    };
    if let Some(command) = command.filter(|command| command.text().is_some_and(|text| text.trim().is_empty()))
    {
        found.push(command.problem("the program is missing"));
    }
    if let Some(url) = url {
        address(&url, found);
    }
    for key in senseless.iter().filter_map(|key| server.key(key)) {
        found.push(key.problem("it means nothing for this kind of server"));
    }
}

fn address(url: &View<'_>, found: &mut Vec<Problem>) {
    let Some(text) = url.text() else { return };
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
        None | Some("") => {
            found.push(url.problem(format!("expected an address as https://host/mcp, got {}", url.shown())));
        }
        Some(host) if host.contains('@') => {
            found.push(url.problem("a name or password does not belong into an address; send a header"));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn complaints(servers: &Value) -> Vec<String> {
        let document = json!({"mcp": {"servers": servers}});
        let mut found = Vec::new();
        check(&View::new(&document, &document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_server_has_a_plain_name_and_one_way_to_reach_it() {
        let servers = json!({
            "fine": {"command": "npx", "args": ["x"], "env": {"A": "b"}},
            "far": {"url": "https://example.com/mcp", "headers": {"x": "y"}},
            "Bad": {"command": "x"},
            "neither": {},
            "both": {"command": "x", "url": "https://h/"},
            "mixed": {"url": "http://h/", "args": ["x"]},
            "other": {"command": "x", "headers": {}, "env": {"A B": "c"}},
            "empty": {"command": " "},
            "held": {"command": "x", "sandbox": {"read": ["/srv", "data"], "write": ["~/x"]}},
            "file": {"url": "file:///x"},
            "user": {"url": "https://u:p@h/"},
        });
        assert_eq!(
            complaints(&servers),
            [
                "mcp.servers.Bad: a server's name must be 1 to 32 lower-case letters, digits, - and _, with a letter or digit first",
                "mcp.servers.neither: a server is a program or an address: give it `command` or `url`, or write it with `tidegate mcp add`",
                "mcp.servers.both: a server is a program or an address, not both",
                "mcp.servers.mixed.args: it means nothing for this kind of server",
                "mcp.servers.other.headers: it means nothing for this kind of server",
                "mcp.servers.other.env.A B: a variable's name has letters, digits and _, with no digit first",
                "mcp.servers.empty.command: the program is missing",
                r#"mcp.servers.held.sandbox.read[1]: expected a path that begins with /, got "data""#,
                r#"mcp.servers.held.sandbox.write[0]: expected a path that begins with /, got "~/x""#,
                r#"mcp.servers.file.url: expected an address as https://host/mcp, got "file:///x""#,
                "mcp.servers.user.url: a name or password does not belong into an address; send a header",
            ]
        );
    }
}
