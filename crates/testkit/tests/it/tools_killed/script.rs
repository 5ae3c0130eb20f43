//! What the model says. Which turn answers follows from the last message alone, so a run that is begun again hears the
//! same; every message has a number, and the calls it leads to have ids of their own.

use serde_json::{Value, json};
use tidegate_testkit::host::{LOOK, NOTE};

/// More tokens than fit: everything is summed up, also what the run itself has said.
const ALL_OF_IT: u64 = 2_000_000;
/// Somewhat more than the line: the newest stays.
const OLD_PART: u64 = 115_000;

/// The id of the call that writes a note before a summary. All of them have it: the request for notes has no number.
pub(super) const NOTE_CALL: &str = "n";
/// Where these notes are.
pub(super) const NOTES: &str = "before.md";

/// What the summary says.
const SUMMARY: &str = "They spoke of the tide.";

/// The script for messages up to this number. With `full` the window is full after each answer.
pub(super) fn script(messages: usize, full: bool) -> Value {
    let mut turns = vec![
        says("Use these headings", SUMMARY),
        json!({
            "when": "will soon be shortened",
            "calls": [call(NOTE_CALL, "memory_append", &json!({"text": "before", "file": NOTES}))],
        }),
        says(&format!("memory/{NOTES}"), "NO_REPLY"),
        says(SUMMARY, "Done, as far as I know."),
        says("interrupted: the program", "Something broke off."),
        says("skipped: the user", "I left something out."),
        says("\"status\":\"accepted\"", "Somebody is on it."),
    ];
    for number in 1..=messages {
        turns.extend(of_message(number, full));
    }
    json!({ "turns": turns })
}

fn of_message(number: usize, full: bool) -> Vec<Value> {
    let (first, last) = match (full, number % 2) {
        (false, _) => (10, 10),
        (true, 0) => (ALL_OF_IT, OLD_PART),
        (true, _) => (OLD_PART, OLD_PART),
    };
    let used = |tokens: u64| json!({"input": tokens, "output": 1});
    let (note, look, remember) = (format!("a{number}"), format!("l{number}"), format!("b{number}"));
    vec![
        says(&format!("The task \"child {number}.\""), &format!("The child told {number}.")),
        says(&format!("child {number}."), &format!("Child {number} answers.")),
        json!({
            "when": format!("delegate {number}."),
            "say": format!("I ask for help {number}."),
            "calls": [
                call(&format!("s{number}"), "sessions_spawn", &json!({"task": format!("child {number}.")})),
                call(
                    &format!("m{number}"),
                    "sessions_send",
                    &json!({"label": format!("child {number}."), "message": format!("more {number}."),
                        "timeoutSeconds": 0}),
                ),
            ],
        }),
        says(&format!("more {number}."), &format!("Child {number} heard more.")),
        says(&format!("steer {number}."), &format!("I turn to {number}.")),
        json!({
            "when": format!("task {number}."),
            "say": format!("I begin {number}."),
            "calls": [call(&note, NOTE, &json!({})), call(&look, LOOK, &json!({}))],
            "usage": used(first),
            "delayMs": 2,
        }),
        json!({
            "when": format!("looked {look}."),
            "say": format!("I go on with {number}."),
            "calls": [call(
                &remember,
                "memory_append",
                &json!({"text": remember, "file": format!("{remember}.md")}),
            )],
            "usage": used(10),
        }),
        json!({
            "when": format!("memory/{remember}.md"),
            "say": format!("Done with {number}."),
            "usage": used(last),
        }),
    ]
}

fn says(when: &str, words: &str) -> Value {
    json!({"when": when, "say": words})
}

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"id": id, "name": tool, "arguments": arguments})
}
