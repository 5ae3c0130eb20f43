//! Before a conversation is shortened, the agent may write down what should last: seen by nobody, once a cycle.

use serde_json::{Value, json};
use tidegate_testkit::model_server::{Step, Tokens, Turn};

use super::Desk;

/// An answer after which the window, of 32,000 tokens, is fuller than where notes are taken and not too full.
fn fills(text: &str) -> Turn {
    let tokens = Tokens { input: 21_000, output: 10, cache_read: 0, cache_write: 0 };
    Turn::say(text).then(Step::Usage(tokens))
}

fn notes(desk: &Desk) -> Vec<String> {
    let agents = desk.home.root().join("agents");
    let folders = std::fs::read_dir(agents).into_iter().flatten().flatten();
    let memory = folders.flat_map(|agent| std::fs::read_dir(agent.path().join("workspace/memory"))).flatten();
    memory.flatten().map(|file| std::fs::read_to_string(file.path()).unwrap()).collect()
}

fn last_user_text(body: &Value) -> String {
    body["messages"].as_array().and_then(|messages| messages.last()).map(Value::to_string).unwrap_or_default()
}

#[test]
fn notes_are_taken_once_before_the_window_is_full_and_nobody_sees_it() {
    let desk = Desk::with(&json!({"profile": "coding"}));
    desk.vendor.push(fills("noted"));
    desk.home.call(&["ask", "the key is under the third stone"]).ok();
    desk.vendor.push(Turn::call("m1", "memory_append", json!({"text": "key: third stone"})));
    desk.vendor.push(Turn::say("NO_REPLY"));
    desk.vendor.push(fills("at six"));
    let answer = desk.home.call(&["ask", "when is the tide?"]).json();
    assert_eq!((&answer["result"], &answer["toolCalls"]), (&json!("at six"), &json!([])));
    let requests = desk.vendor.requests();
    assert_eq!(requests.len(), 4);
    assert!(last_user_text(&requests[1].body).contains("will soon be shortened"), "{}", requests[1].body);
    assert!(last_user_text(&requests[3].body).contains("when is the tide?"), "{}", requests[3].body);
    let notes = notes(&desk);
    assert!(notes.len() == 1 && notes[0].contains("key: third stone"), "{notes:?}");
    let shown = desk.home.call(&["sessions", "show", "main", "--json"]).json();
    let text = shown["entries"].to_string();
    assert!(
        !text.contains("NO_REPLY") && !text.contains("shortened") && !text.contains("memory_append"),
        "{text}"
    );
    let usage = desk.home.call(&["usage", "--json"]).json().to_string();
    assert!(usage.contains("\"calls\":4"), "what it cost is counted: {usage}");
    // Not again before it was summed up.
    desk.vendor.push(fills("at seven"));
    desk.home.call(&["ask", "and the next?"]).ok();
    assert_eq!(desk.vendor.requests().len(), 5);
}

#[test]
fn who_may_not_write_takes_no_notes() {
    let desk = Desk::with(&json!({"profile": "coding", "deny": ["memory_append"]}));
    desk.vendor.push(fills("noted"));
    desk.home.call(&["ask", "the key is under the third stone"]).ok();
    desk.vendor.push(fills("at six"));
    desk.home.call(&["ask", "when is the tide?"]).ok();
    assert_eq!((desk.vendor.requests().len(), notes(&desk)), (2, Vec::new()));
}
