//! What policy says holds in a question too, and the model is told.

use serde_json::{Value, json};
use tidegate_testkit::model_server::Turn;

use super::Desk;
use crate::gateway::live::Live;
use crate::home::Home;

/// The text of what a tool gave, in the last request.
fn told(desk: &Desk) -> String {
    let messages = desk.vendor.last_request().body["messages"].as_array().unwrap().clone();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn a_denied_call(desk: &Desk) -> Value {
    desk.vendor.push(Turn::call("c1", "write", json!({"path": "new.txt", "content": "x"})));
    desk.vendor.push(Turn::say("I may not"));
    desk.ask(&["write a file"])
}

#[test]
fn a_refused_call_is_told_to_the_model_and_is_no_failure() {
    let desk = Desk::with(&Value::Null);
    let answer = a_denied_call(&desk);
    assert_eq!((&answer["result"], &answer["toolError"]["tool"]), (&json!("I may not"), &json!("write")));
    assert!(told(&desk).contains("not allowed"), "{}", told(&desk));
    let shown = desk.home.call(&["runs", "show", answer["requestId"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains("write (refused)") && shown.contains("cost"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("cost") && line.contains('$')), "{shown}");
    assert!(!desk.root.join("new.txt").exists());
}

#[test]
fn a_question_nobody_is_there_to_answer_is_a_no() {
    let desk = Desk::with(&json!({"profile": "coding", "modes": {"write": "approval-required"}}));
    let answer = a_denied_call(&desk);
    let message = answer["toolError"]["message"].as_str().unwrap();
    assert!(message.contains("nobody is there to approve it"), "{answer}");
    assert!(!desk.root.join("new.txt").exists());
    assert_eq!(desk.home.call(&["approvals", "list", "--json"]).json()["approvals"], json!([]));
}

#[test]
fn a_call_that_may_writes_where_the_person_is() {
    let desk = Desk::trusting();
    desk.vendor.push(Turn::call("c1", "write", json!({"path": "new.txt", "content": "by the tide"})));
    desk.vendor.push(Turn::say("done"));
    assert_eq!(desk.ask(&["write a file"])["result"], "done");
    assert_eq!(std::fs::read_to_string(desk.root.join("new.txt")).unwrap(), "by the tide");
}

#[test]
fn beside_a_gateway_it_is_the_same() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    desk.vendor.push(Turn::call("c1", "write", json!({"path": "new.txt", "content": "joined"})));
    desk.vendor.push(Turn::say("done"));
    let answer = desk.ask(&["write a file"]);
    assert_eq!((&answer["result"], &answer["toolCalls"][0]["name"]), (&json!("done"), &json!("write")));
    assert_eq!(answer["toolCalls"][0]["source"], "model");
    assert_eq!(std::fs::read_to_string(desk.root.join("new.txt")).unwrap(), "joined");
    let strict = desk.call(&["--strict", "--tool-allow", "time.now", "tool:shell.pwd"]).run();
    assert_eq!(strict.code, Some(2), "{strict:?}");
    assert_eq!(strict.json()["toolError"]["code"], "tool_not_found");
    live.end();
}

#[test]
fn a_program_at_the_port_cannot_choose_the_folder_of_tools() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    let body = json!({"text": "hi", "session": "main", "key": "k1", "tools": {"root": "/"}});
    let answer = live.http("POST", "/api/v1/ask", &body);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(desk.home.runs().is_empty() && desk.vendor.requests().is_empty());
    live.end();
}

#[test]
fn a_list_of_tools_that_names_none_is_refused_before_anything_is_asked() {
    let home = Home::new();
    let failed = home.call(&["ask", "--tool-allow", "read,wirte", "hi"]).fails("INVALID_VALUE");
    assert_eq!(failed.message, "--tool-allow: there is no tool wirte");
    assert!(failed.stderr.contains("Did you mean write?"), "{failed:?}");
    let failed = home.call(&["ask", "--tool-allow", "qqqqqqq", "hi"]).fails("INVALID_VALUE");
    assert!(failed.stderr.contains("tools list"), "{failed:?}");
    assert!(home.runs().is_empty(), "nothing was asked");
    for names in ["read,Write", "group:fs", "time.*", "bash", "sessions_spawn"] {
        home.call(&["ask", "--tool-allow", names, "hi"]).ok();
    }
    let failed = home.call(&["ask", "--tool-max-steps", "0", "hi"]).fails("INVALID_VALUE");
    assert!(failed.stderr.contains("A whole number from 1"), "{failed:?}");
}

#[test]
fn without_tools_a_model_that_calls_one_all_the_same_is_refused() {
    let desk = Desk::trusting();
    desk.vendor.push(Turn::call("c1", "write", json!({"path": "new.txt", "content": "x"})));
    desk.vendor.push(Turn::say("then not"));
    let answer = desk.ask(&["--no-with-tools", "write a file"]);
    assert_eq!(answer["result"], "then not");
    assert!(!desk.root.join("new.txt").exists());
    assert!(told(&desk).contains("there are no tools here"), "{}", told(&desk));
}
