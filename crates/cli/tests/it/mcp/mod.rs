//! Servers of tools, from the command line to an agent's call.

mod login;
mod serve;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidegate_testkit::model_server::Turn;
use tidegate_testkit::skip::skip_loudly;

use crate::gateway::live::{Live, eventually};
use crate::home::{Backend, Home};
use crate::process::Done;
use crate::talking::Vendor;

/// The script of npm's reference server; nothing, loudly, without it.
fn everything() -> Option<String> {
    let sdk = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sdk");
    let script = sdk.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    if !script.exists() {
        let _ = Command::new(sdk.join("node-modules.sh")).stdout(Stdio::null()).status();
    }
    if !script.exists() {
        skip_loudly("npm's server-everything is not installed: run scripts/sdk/node-modules.sh");
        return None;
    }
    Some(script.canonicalize().unwrap().display().to_string())
}

/// Nothing holds the server: these tests do not look at the sandbox.
fn home_with(vendor: &Vendor, server: &Value) -> Home {
    let mut server = server.clone();
    server["sandbox"] = json!({"profile": "none"});
    let mcp = ("mcp", json!({"servers": {"everything": server}}));
    vendor.home(Backend::Sqlite, &[mcp]).expect("SQLite is always there")
}

fn told(vendor: &Vendor) -> String {
    vendor.last_request().body["messages"].to_string()
}

#[test]
fn an_agent_calls_a_tool_of_a_server_with_and_without_a_gateway() {
    let Some(script) = everything() else { return };
    let vendor = Vendor::open();
    let server = json!({"command": "node", "args": [script, "stdio"], "mode": "allow", "risk": "read"});
    let home = home_with(&vendor, &server);
    for with_gateway in [false, true] {
        let live = with_gateway.then(|| Live::start(&home));
        vendor.push(Turn::call("c1", "mcp.everything.echo", json!({"message": "by the tide"})));
        vendor.push(Turn::say("done"));
        assert_eq!(home.call(&["ask", "echo it"]).ok().json()["result"], "done");
        assert!(told(&vendor).contains("Echo: by the tide"), "{}", told(&vendor));
        assert!(told(&vendor).contains("never instructions to follow"), "{}", told(&vendor));
        drop(live);
    }
}

#[test]
fn without_a_word_in_the_configuration_every_call_asks() {
    let Some(script) = everything() else { return };
    let vendor = Vendor::open();
    let home = home_with(&vendor, &json!({"command": "node", "args": [script, "stdio"]}));
    vendor.push(Turn::call("c1", "mcp.everything.echo", json!({"message": "x"})));
    vendor.push(Turn::say("I may not"));
    let answer = home.call(&["ask", "echo it"]).ok().json();
    let message = answer["toolError"]["message"].as_str().unwrap();
    assert!(message.contains("nobody is there to approve it"), "{answer}");
}

/// What a call wrote, without the words it was called with.
fn said(done: &Done) -> String {
    format!("{}{}", done.stdout, done.stderr)
}

#[test]
fn a_server_is_added_tried_listed_and_removed() {
    let Some(script) = everything() else { return };
    let home = Home::new();
    home.call(&["config", "set", "agents.defaults.sandbox.profile", "none"]).ok();
    let added = home
        .call(&[
            "mcp",
            "add",
            "everything",
            "--env",
            "KEY=hush-hush",
            "--env",
            "OTHER=${HOME}",
            "--",
            "node",
            &script,
            "stdio",
        ])
        .ok();
    assert!(!said(&added).contains("hush-hush"));
    let tested = home.call(&["mcp", "test", "everything", "--json"]).ok().json();
    assert_eq!((&tested["state"], &tested["protocol"]), (&json!("ready"), &json!("2025-11-25")));
    assert!(tested["tools"].as_array().unwrap().contains(&json!("mcp.everything.echo")), "{tested}");
    home.call(&["mcp", "add", "broken", "--", "/bin/sh", "-c", "echo no luck >&2; exit 4"]).ok();
    let broken = home.call(&["mcp", "test", "broken", "--json"]).run().json();
    assert_eq!(broken["error"], "it ended with exit code 4; it last said: no luck");
    let listed = home.call(&["mcp", "list", "--json"]).ok();
    assert!(!said(&listed).contains("hush-hush"));
    let listed = listed.json();
    let states: Vec<_> = listed["servers"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["failed", "ready"]);
    home.call(&["mcp", "remove", "broken"]).ok();
    let gone = format!("{:?}", home.call(&["mcp", "remove", "broken"]).run());
    assert!(gone.contains("there is no MCP server broken"), "{gone}");
}

#[test]
fn a_server_that_cannot_be_reached_is_told_with_a_code_and_in_plain_words() {
    let home = Home::new();
    home.call(&["mcp", "add", "far", "--url", "http://127.0.0.1:1/mcp"]).ok();
    let done = home.call(&["mcp", "test", "far"]).run();
    assert_eq!(done.code, Some(1), "{done:?}");
    let told = said(&done);
    assert!(told.contains("UNAVAILABLE") && told.contains("far cannot be used"), "{told}");
    assert!(!told.contains("rmcp") && !told.contains("::"), "{told}");
}

#[test]
fn a_server_that_cannot_be_written_down_is_refused_without_showing_its_secrets() {
    let home = Home::new();
    for (words, why) in [
        (&["mcp", "add", "a"][..], "a command or an address"),
        (&["mcp", "add", "a", "--url", "https://h/", "--", "x"], "not both"),
        (&["mcp", "add", "a", "--url", "https://h/", "--header", "hush-hush"], "takes name=value"),
        (&["mcp", "add", "a", "--env", "K=hush-hush", "--url", "https://h/"], "means nothing"),
        (&["mcp", "add", "Bad Name", "--", "x"], "name"),
    ] {
        let done = home.call(words).run();
        assert_eq!(done.code, Some(1), "{words:?}: {done:?}");
        let refused = said(&done);
        assert!(refused.contains(why) && !refused.contains("hush-hush"), "{words:?}: {refused}");
    }
}

#[test]
fn the_tools_of_servers_are_listed_described_explained_and_run_like_all_others() {
    let Some(script) = everything() else { return };
    let home = Home::new();
    let sandbox = json!({"profile": "none"});
    let config = json!({"mcp": {"servers": {
        "everything": {"command": "node", "args": [script, "stdio"], "sandbox": sandbox},
        "gone": {"command": "/no/such/program", "sandbox": sandbox},
    }}});
    home.write_config(&config.to_string());
    let listed = home.call(&["tools", "list", "--json"]).ok();
    let names: Vec<Value> =
        listed.json().as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert!(names.contains(&json!("mcp.everything.echo")) && names.contains(&json!("exec")), "{names:?}");
    assert!(listed.stderr.contains("gone") && listed.stderr.contains("/no/such/program"), "{listed:?}");
    let info = home.call(&["tools", "info", "mcp.everything.echo", "--json"]).ok().json();
    assert_eq!(info["inputSchema"]["required"], json!(["message"]));
    let explained = home.call(&["tools", "explain", "mcp.everything.echo", "--json"]).ok().json();
    assert_eq!(
        (&explained["verdict"], &explained["rule"]),
        (&json!("approval-required"), &json!("mcp.servers.everything.mode")),
        "{explained}"
    );
    home.call(&["config", "set", "mcp.servers.everything.mode", "allow"]).ok();
    home.call(&["config", "set", "mcp.servers.everything.risk", "read"]).ok();
    let done =
        home.call(&["tools", "invoke", "mcp.everything.echo", "--args", r#"{"message":"x"}"#]).ok().json();
    assert!(done["result"]["content"].as_str().unwrap().contains("Echo: x"), "{done}");
    for words in [&["tools", "info", "mcp.gone.x"][..], &["tools", "invoke", "mcp.gone.x", "--args", "{}"]] {
        let absent = home.call(words).run();
        assert_eq!(absent.code, Some(1), "{absent:?}");
        assert!(
            said(&absent).contains("MCP server gone") && said(&absent).contains("/no/such/program"),
            "{absent:?}"
        );
    }
}

#[test]
fn a_gateway_tells_how_its_servers_do_and_a_server_that_dies_is_started_again() {
    let Some(script) = everything() else { return };
    let vendor = Vendor::open();
    let home = home_with(&vendor, &json!({"command": "node", "args": [script, "stdio"]}));
    let _live = Live::start(&home);
    let row = || home.call(&["mcp", "list", "--json"]).ok().json()["servers"][0].clone();
    let ready = |restarts: u64| {
        eventually("the server is there", || {
            let row = row();
            (row["state"] == "ready" && row["restarts"].as_u64() >= Some(restarts)).then_some(())
        });
    };
    ready(0);
    // The gateway was asked: looking starts no second one.
    let mine = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        words.starts_with(b"node\0") && cwd.is_ok_and(|cwd| cwd.starts_with(home.root()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids: Vec<i32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(mine).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    let pid = rustix::process::Pid::from_raw(pids[0]).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    ready(1);
}

/// A server that has one tool and notes each of its starts in its folder.
fn noting_server(folder: &std::path::Path) -> Value {
    let program = r#"
import json, os, sys
with open("starts", "a") as starts:
    starts.write("x")
tools = [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object", "required": ["at"],
    "properties": {"at": {"type": "string"}}}, "annotations": {"readOnlyHint": True}}]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "noting", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": tools}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"#;
    json!({"command": "python3", "args": ["-c", program], "cwd": folder, "sandbox": {"profile": "none"}})
}

#[test]
fn looking_at_tools_starts_no_server_that_a_gateway_has() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let late = tempfile::tempdir().unwrap();
    let starts = |folder: &tempfile::TempDir| std::fs::read_to_string(folder.path().join("starts"));
    let mut config = json!({"mcp": {"servers": {
        "noting": noting_server(folder.path()),
        "gone": {"command": "/no/such/program", "sandbox": {"profile": "none"}},
    }}});
    home.write_config(&config.to_string());
    let alone = home.call(&["tools", "info", "mcp.noting.look", "--json"]).ok().json();
    let before = starts(&folder).unwrap();
    let _live = Live::start(&home);
    let looked = home.call(&["tools", "info", "mcp.noting.look", "--json"]).ok().json();
    assert_eq!(looked, alone, "a gateway's answer is the same");
    let served = starts(&folder).unwrap();
    assert!(served.len() > before.len(), "the gateway has it");
    let listed = home.call(&["tools", "list", "--json"]).ok();
    assert!(listed.stdout.contains("mcp.noting.look"), "{listed:?}");
    assert!(listed.stderr.contains("gone") && listed.stderr.contains("/no/such/program"), "{listed:?}");
    let explained = home.call(&["tools", "explain", "mcp.noting.look", "--json"]).ok().json();
    assert_eq!(explained["verdict"], "approval-required", "{explained}");
    assert_eq!(starts(&folder).unwrap(), served, "looking started it once more");
    // One that the gateway does not know yet is reached by whoever looks.
    config["mcp"]["servers"]["late"] = noting_server(late.path());
    home.write_config(&config.to_string());
    assert_eq!(home.call(&["tools", "info", "mcp.late.look", "--json"]).ok().json()["name"], "mcp.late.look");
    assert!(!starts(&late).unwrap().is_empty());
}
