//! `tools …`: which there are, what policy says, and running one by hand.

mod brood;
mod children;
mod contract;
mod explain;
mod forged;
mod place;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::home::Home;
use crate::process::Done;
use crate::terminal::on_terminal;

/// A folder with a file of six bytes and a folder with a file in it.
pub(crate) fn workspace(home: &Home) -> PathBuf {
    let root = home.around().join("work");
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    std::fs::write(root.join("six.txt"), "sixsix").unwrap();
    std::fs::write(root.join("sub/deep/b.txt"), "b").unwrap();
    root.canonicalize().unwrap()
}

/// Runs a tool in the workspace.
fn invoke(home: &Home, tool: &str, args: Option<&str>) -> Done {
    let root = workspace(home);
    let mut words = vec!["tools", "invoke", tool, "--root", root.to_str().unwrap()];
    words.extend(args.iter().flat_map(|args| ["--args", args]));
    home.call(&words).run()
}

fn works(home: &Home, tool: &str, args: &Value) -> Value {
    let done = invoke(home, tool, Some(&args.to_string()));
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = done.json();
    assert_eq!(told["result"]["ok"], true, "{told}");
    told["result"].clone()
}

/// The error of a call that must fail, with the JSON on standard output all the same.
fn fails(home: &Home, tool: &str, args: Option<&str>, code: &str) -> Value {
    let done = invoke(home, tool, args);
    assert_eq!(done.code, Some(1), "{done:?}");
    let told = done.json();
    assert_eq!(
        (&told["result"]["ok"], &told["result"]["error"]["code"]),
        (&json!(false), &json!(code)),
        "{told}"
    );
    told["result"]["error"].clone()
}

#[test]
fn the_list_is_json_in_a_pipe_and_sorted_by_name() {
    let home = Home::new();
    let list = home.call(&["tools", "list"]).json();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    for name in ["time.now", "tools.echo", "shell.pwd", "fs.list_dir", "fs.read_file", "exec", "web_fetch"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for tool in list.as_array().unwrap() {
        assert_eq!(tool.as_object().unwrap().len(), 3, "{tool}");
        assert!(tool["description"].is_string() && tool["inputSchema"]["type"] == "object", "{tool}");
    }
    let allowed = home.call(&["tools", "list", "--allowed", "--json"]).json();
    let allowed: Vec<&str> =
        allowed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(
        allowed.contains(&"read") && !allowed.contains(&"write") && !allowed.contains(&"exec"),
        "{allowed:?}"
    );
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn a_terminal_shows_what_policy_says_about_each_tool() {
    let home = Home::new();
    home.write_config("{ tools: { profile: 'coding', modes: { write: 'approval-required' } } }");
    let shown = on_terminal(&home, &["tools", "list"], "", &[("NO_COLOR", "1")]).stdout;
    let line = |tool: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(tool));
        line.unwrap_or_else(|| panic!("no {tool}: {shown}")).split_whitespace().take(3).collect::<Vec<_>>()
    };
    assert_eq!(line("read"), ["read", "read", "allowed"]);
    assert_eq!(line("write"), ["write", "write", "asks"]);
    assert_eq!(line("web_fetch"), ["web_fetch", "network", "denied"]);
    let sheet = on_terminal(&home, &["tools", "info", "fs.read_file"], "", &[("NO_COLOR", "1")]).stdout;
    assert!(
        sheet.contains("maxBytes") && sheet.contains("204800") && sheet.contains("tools.profile"),
        "{sheet}"
    );
}

#[test]
fn info_has_the_schema_and_how_the_tool_runs() {
    let home = Home::new();
    let info = home.call(&["tools", "info", "FS.Read_File"]).json();
    assert_eq!(info["name"], "fs.read_file");
    assert!(info["inputSchema"]["properties"]["maxBytes"].is_object(), "{info}");
    let runtime = &info["runtime"];
    assert_eq!(runtime["defaults"]["maxBytes"], 204_800);
    assert_eq!((&runtime["risk"], &runtime["timeoutMs"]), (&json!("read"), &json!(8_000)));
    assert_eq!(
        (&runtime["verdict"]["verdict"], &runtime["verdict"]["stage"]),
        (&json!("allow"), &json!("profile"))
    );
    home.write_config("{ tools: { timeoutSeconds: 3 } }");
    assert_eq!(home.call(&["tools", "info", "grep"]).json()["runtime"]["timeoutMs"], 3_000);
    let unknown = home.call(&["tools", "info", "nope"]).fails("NOT_FOUND");
    assert_eq!(unknown.message, "Tool not found: nope");
    let near = home.call(&["tools", "info", "grpe"]).fails("NOT_FOUND");
    assert!(near.stderr.contains("Did you mean grep?"), "{near:?}");
    assert!(home.call(&["tools", "info"]).fails("MISSING_VALUE").stderr.contains("Usage"));
    assert!(home.call(&["tools"]).fails("MISSING_VALUE").stdout.is_empty());
    home.call(&["tools", "bogus"]).fails("UNKNOWN_COMMAND");
}

#[test]
fn the_five_of_the_contract_answer_as_it_says() {
    let home = Home::new();
    let done = invoke(&home, "time.now", None);
    let told = done.json();
    let call = &told["call"];
    assert_eq!(
        (&call["name"], &call["args"], &call["source"]),
        (&json!("time.now"), &json!({}), &json!("cli"))
    );
    let id: Vec<&str> = call["id"].as_str().unwrap().split('-').collect();
    assert_eq!((id.len(), id[0], id[2].len()), (3, "cli", 4), "{call}");
    let data = &told["result"]["data"];
    let called_at: u64 = id[1].parse().unwrap();
    assert!(data["timestamp"].as_u64().unwrap().abs_diff(called_at) < 60_000, "{told}");
    assert_eq!(
        told["result"]["content"],
        format!("timestamp={}, iso={}", data["timestamp"], data["iso"].as_str().unwrap())
    );
    assert_eq!(told["result"]["meta"]["tool"], "time.now");
    assert!(told["result"]["usage"]["durationMs"].is_u64(), "{told}");

    let echo = works(&home, "Tools.Echo", &json!({"message": "hi"}));
    assert_eq!((&echo["content"], &echo["data"]), (&json!("hi"), &json!({"message": "hi"})));
    let root = workspace(&home);
    assert_eq!(works(&home, "shell.pwd", &json!({}))["data"]["cwd"], root.to_str().unwrap());

    let read = works(&home, "fs.read_file", &json!({"path": "six.txt"}));
    assert_eq!((&read["content"], &read["data"]["size"]), (&json!("sixsix"), &json!(6)));
    let big = fails(&home, "fs.read_file", Some(r#"{"path": "six.txt", "maxBytes": 2}"#), "execution_error");
    assert_eq!(big["message"], "file size exceeds maxBytes (6 > 2)");
    fails(&home, "fs.read_file", Some(r#"{"path": "missing"}"#), "execution_error");
    let folder = fails(&home, "fs.read_file", Some(r#"{"path": "sub"}"#), "execution_error");
    assert_eq!(folder["message"], "target path is not a file");

    let list = works(&home, "fs.list_dir", &json!({"path": "."}));
    let nodes = list["data"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1, "{list}");
    let sub = nodes[0]["children"].as_array().unwrap().iter().find(|child| child["name"] == "sub").unwrap();
    assert_eq!(sub["type"], "directory");
    let shallow = works(&home, "fs.list_dir", &json!({"path": ".", "recursive": true, "maxDepth": 1}));
    assert!(!shallow.to_string().contains("b.txt"), "{shallow}");
}

#[test]
fn what_is_wrong_with_a_call_is_told_in_the_codes_of_the_contract() {
    let home = Home::new();
    let missing = fails(&home, "tools.echo", None, "invalid_args");
    assert_eq!(missing["message"], "missing required argument: message");
    fails(&home, "tools.echo", Some(r#"{"message": 1}"#), "invalid_args");
    fails(&home, "tools.echo", Some(r#"{"message": "a", "x": 1}"#), "invalid_args");
    fails(&home, "tools.echo", Some("[1]"), "invalid_args");
    let unknown = fails(&home, "nope", None, "tool_not_found");
    assert_eq!(unknown["message"], "tool not found: nope");
    let bad = home.call(&["tools", "invoke", "tools.echo", "--args", "{bad"]).fails("INVALID_VALUE");
    assert!(bad.message.starts_with("Invalid --args json: ") && bad.stdout.is_empty(), "{bad:?}");
    let hidden = fails(&home, "write", Some(r#"{"path": "a", "content": "b"}"#), "tool_not_found");
    assert_eq!(hidden["message"], "tool not allowed: write");
    assert_eq!(hidden["details"]["policy"]["rule"], "tools.profile");
}

#[test]
fn explain_names_the_rule_that_decides_and_runs_nothing() {
    let home = Home::new();
    home.write_config(
        "{ tools: { profile: 'coding', rules: [{ name: 'no-env', tool: 'group:fs', when: { path: ['**/.env'] }, \
         mode: 'deny', reason: 'keys live there', examples: { matches: [{ path: 'a/.env' }] } }] }, \
         agents: { list: [{ id: 'main' }, { id: 'helper', tools: { profile: 'safe' } }] } }",
    );
    let root = workspace(&home);
    let explain = |words: &[&str]| {
        let all =
            [["tools", "explain"].as_slice(), words, &["--root", root.to_str().unwrap(), "--json"]].concat();
        home.call(&all).json()
    };
    let env = explain(&["write", "--args", r#"{"path": "sub/.env", "content": "x"}"#]);
    assert_eq!((&env["verdict"], &env["rule"]), (&json!("deny"), &json!("tools.rules[no-env]")));
    assert_eq!((&env["stage"], &env["reason"]), (&json!("global"), &json!("keys live there")));
    assert_eq!(env["call"]["subjects"], json!([{"kind": "path", "value": "sub/.env"}]));
    assert!(env["trail"].as_array().unwrap().len() >= 3, "{env}");
    let fine = explain(&["write", "--args", r#"{"path": "sub/a", "content": "x"}"#]);
    assert_eq!(fine["verdict"], "allow");
    assert!(!root.join("sub/a").exists(), "nothing is written");
    let helper = explain(&["write", "--agent", "helper"]);
    assert_eq!(
        (&helper["verdict"], &helper["rule"]),
        (&json!("deny"), &json!("agents.list[helper].tools.profile"))
    );
    let command = explain(&["exec", "--args", r#"{"command": "ls -l | wc -l"}"#]);
    assert_eq!((&command["verdict"], &command["stage"]), (&json!("approval-required"), &json!("exec")));
    let text = home.call(&["tools", "explain", "write", "--agent", "helper"]).ok().stdout;
    assert!(
        text.starts_with("write is denied for agent helper\n")
            && text.contains("agents.list[helper].tools.profile"),
        "{text}"
    );
    home.call(&["tools", "explain", "nope"]).fails("NOT_FOUND");
    home.call(&["tools", "explain", "write", "--args", "{}"]).fails("INVALID_VALUE");
    assert!(!home.root().join("tidegate.db").exists(), "nobody was asked and nothing recorded");
}

#[test]
fn a_rule_that_does_not_do_what_its_examples_say_stops_the_command() {
    let home = Home::new();
    home.write_config(
        "{ tools: { rules: [{ name: 'r', tool: 'read', when: { path: ['a'] }, mode: 'deny', \
         examples: { matches: [{ path: 'b' }] } }] } }",
    );
    let refused = home.call(&["tools", "list"]).fails("CONFIG_INVALID");
    assert!(refused.message.contains("tools.rules[r]"), "{refused:?}");
    home.call(&["tools", "invoke", "time.now"]).fails("CONFIG_INVALID");
}

#[test]
fn a_tool_of_ones_own_is_there_and_asks() {
    let home = Home::new();
    home.write_config(
        "{ tools: { alsoAllow: ['tools.custom.hello'], custom: { hello: { description: 'Greets.', \
         command: ['/bin/echo', 'hello {{who}}'], \
         schema: { type: 'object', properties: { who: { type: 'string' } }, required: ['who'] } } } } }",
    );
    let info = home.call(&["tools", "info", "tools.custom.hello"]).json();
    assert_eq!(
        (&info["runtime"]["risk"], &info["runtime"]["verdict"]["verdict"]),
        (&json!("execute"), &json!("approval-required"))
    );
    let denied = fails(&home, "tools.custom.hello", Some(r#"{"who": "you"}"#), "execution_error");
    assert_eq!(denied["details"]["policy"]["verdict"], "approval-required");
    let root = workspace(&home);
    let words = [
        "tools",
        "invoke",
        "tools.custom.hello",
        "--args",
        r#"{"who": "you"}"#,
        "--root",
        root.to_str().unwrap(),
    ];
    let asked = on_terminal(&home, &words, "y\n", &[]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(
        asked.stdout.contains("/bin/echo 'hello you'") || asked.stdout.contains("echo 'hello you'"),
        "{asked:?}"
    );
    assert!(asked.stdout.contains("\"ok\": true"), "{asked:?}");
}
