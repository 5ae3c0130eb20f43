//! `approvals …`: questions, their one answer, and what was allowed for good.

mod commands;
mod restart;
mod shown;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gateway::live::Live;
use crate::home::Home;
use crate::process::Running;
use crate::terminal::on_terminal;
use crate::tools::workspace;

const ASKING: &str = "{ tools: { profile: 'coding', modes: { write: 'approval-required' } } }";
const CALL: &str = r#"{"path": "new.txt", "content": "written"}"#;

fn home_that_asks() -> Home {
    let home = Home::new();
    home.write_config(ASKING);
    home
}

/// A call that waits for somebody else's answer.
fn waiting(home: &Home) -> Running {
    let root = workspace(home);
    home.call(&["tools", "invoke", "write", "--args", CALL, "--root", root.to_str().unwrap(), "--wait"])
        .start()
}

/// The question that waits, as soon as there is one.
pub(crate) fn question(home: &Home) -> Value {
    let start = Instant::now();
    loop {
        let list = home.call(&["approvals", "list", "--json"]).json();
        if let Some(first) = list["approvals"].as_array().unwrap().first() {
            return first.clone();
        }
        assert!(start.elapsed() < Duration::from_mins(1), "no question came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn id(question: &Value) -> String {
    question["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_yes_from_another_command_lets_exactly_this_call_run() {
    let home = home_that_asks();
    let call = waiting(&home);
    let asked = question(&home);
    assert_eq!((&asked["tool"], &asked["state"]), (&json!("write"), &json!("pending")));
    assert_eq!(asked["subjects"], json!(["path new.txt"]));
    assert!(!workspace(&home).join("new.txt").exists(), "nothing before the answer");
    let shown = home.call(&["approvals", "show", &id(&asked)[..20]]).ok().stdout;
    assert!(shown.contains("new.txt") && shown.contains("written"), "{shown}");
    let told = home.call(&["approvals", "approve", &id(&asked)]).ok().stdout;
    assert_eq!(told, "approved, once: write\n");
    let done = call.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(std::fs::read_to_string(workspace(&home).join("new.txt")).unwrap(), "written");
    let late = home.call(&["approvals", "deny", &id(&asked)]).fails("INVALID_VALUE");
    assert!(late.message.contains("settled before: approved, run"), "{late:?}");
    assert_eq!(home.call(&["approvals", "list", "--json"]).json()["approvals"], json!([]));
    let all = home.call(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(all["approvals"][0]["state"], "used");
}

#[test]
fn a_no_is_told_with_its_reason() {
    let home = home_that_asks();
    let call = waiting(&home);
    let asked = question(&home);
    home.call(&["approvals", "deny", &id(&asked), "--reason", "not on a Friday"]).ok();
    let done = call.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    let error = done.json()["result"]["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("not on a Friday"), "{error}");
    assert!(!workspace(&home).join("new.txt").exists());
}

#[test]
fn always_saves_the_rule_that_was_shown_and_it_can_be_taken_back() {
    let home = home_that_asks();
    let root = workspace(&home);
    let words = ["tools", "invoke", "write", "--args", CALL, "--root", root.to_str().unwrap()];
    let asked = on_terminal(&home, &words, "a\n", &[]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stdout.contains("Allowing it for good saves this rule:"), "{asked:?}");
    let rules = home.call(&["approvals", "allowlist", "--json"]).json()["rules"].clone();
    let rule = &rules[0];
    assert_eq!((rules.as_array().unwrap().len(), &rule["tool"]), (1, &json!("write")));
    assert!(asked.stdout.contains(rule["rule"].as_str().unwrap()), "{rule} {asked:?}");
    home.call(&words).ok();
    let other = CALL.replace("new", "other");
    let mut elsewhere = words;
    elsewhere[4] = &other;
    assert_eq!(home.call(&elsewhere).run().code, Some(1), "another file still asks");
    home.call(&["approvals", "allowlist", "remove", rule["id"].as_str().unwrap()]).ok();
    assert_eq!(home.call(&words).run().code, Some(1), "it asks again, and nobody is there");
    home.call(&["approvals", "allowlist", "remove", "0"]).fails("NOT_FOUND");
}

#[test]
fn whoever_says_no_at_the_terminal_is_taken_at_their_word() {
    let home = home_that_asks();
    let root = workspace(&home);
    let words = ["tools", "invoke", "write", "--args", CALL, "--root", root.to_str().unwrap()];
    let asked = on_terminal(&home, &words, "n\nbecause\n", &[]);
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stdout.contains("denied: because"), "{asked:?}");
    assert!(!root.join("new.txt").exists());
}

#[test]
fn a_question_nobody_knows_is_not_found() {
    let home = Home::new();
    for words in [["approvals", "show", "01a1"], ["approvals", "approve", "01a1"], ["approvals", "deny", ""]]
    {
        home.call(&words).fails("NOT_FOUND");
    }
    let empty = home.call(&["approvals", "list"]).ok().stdout;
    assert!(empty.starts_with("Nothing waits for an answer."), "{empty}");
    assert!(!home.root().join("tidegate.db").exists());
    home.call(&["approvals", "approve", "01a1", "--prefix", "1"]).fails("INVALID_VALUE");
}

#[test]
fn a_running_gateway_makes_the_call_and_asks_whoever_sent_it() {
    let home = home_that_asks();
    let live = Live::start(&home);
    let root = workspace(&home);
    let words = ["tools", "invoke", "write", "--args", CALL, "--root", root.to_str().unwrap()];
    assert_eq!(home.call(&words).run().code, Some(1), "without a terminal nobody is there to ask");
    let asked = on_terminal(&home, &words, "y\n", &[]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(std::fs::read_to_string(root.join("new.txt")).unwrap(), "written");
    let command = r#"{"command": "echo one two | wc -w"}"#;
    let words = ["tools", "invoke", "exec", "--args", command, "--root", root.to_str().unwrap()];
    let ran = on_terminal(&home, &words, "y\n", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\"exitCode\": 0") && ran.stdout.contains("wc -w"), "{ran:?}");
    live.end();
}

#[test]
fn a_question_is_heard_and_answered_over_the_gateways_socket() {
    let home = home_that_asks();
    let live = Live::start(&home);
    let mut events = home.call(&["events"]).start();
    // Only then it listens.
    events.complaint("Ctrl-C");
    let call = waiting(&home);
    let mut heard = |wanted: &str| loop {
        let line = events.line();
        assert!(!line.is_empty(), "{wanted} never came");
        if line.contains(wanted) {
            return line;
        }
    };
    let asked = heard("is asked for: write");
    let id = asked.split(' ').nth(1).unwrap().to_owned();
    let method = |name: &str, params: Value| {
        home.call(&["gateway", "call", name, "--params", &params.to_string()]).json()
    };
    assert_eq!(method("approval.get", json!({ "id": id }))["subjects"], json!(["path new.txt"]));
    assert_eq!(method("approval.list", json!({}))["approvals"][0]["id"], id.as_str());
    let decided = method("approval.decide", json!({ "id": id, "decision": "allow-once" }));
    assert_eq!((&decided["won"], &decided["approval"]["state"]), (&json!(true), &json!("approved")));
    assert_eq!(heard("is approved"), format!("approval {id} is approved: write"));
    let done = call.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    let late = method("approval.decide", json!({ "id": id, "decision": "deny" }));
    assert_eq!(late["won"], false, "the first answer counts");
    events.signal(rustix::process::Signal::INT);
    assert_eq!(events.wait().code, Some(0));
    live.end();
}
