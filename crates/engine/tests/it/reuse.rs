//! The same look, taken again in a session.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_protocol::Id as _;

use crate::subagents::crew;
use crate::tools::{on_record, workspace};
use crate::vendor::{Bench, on_both_backends};

on_both_backends! {
    a_look_that_was_just_taken_is_not_taken_again_until_something_was_done,
    without_reuse_every_call_runs,
    a_note_says_where_it_came_from,
}

fn calls(tool: &str, args: &Value) -> Value {
    json!({"calls": [{"id": "c", "name": tool, "arguments": args}]})
}

/// Reads a file twice, writes another one, reads again, and asks for the time twice.
fn turns() -> Value {
    let read = calls("read", &json!({"path": "notes.txt"}));
    let write = calls("write", &json!({"path": "other.txt", "content": "x"}));
    let time = calls("time.now", &json!({}));
    json!([read, read, write, read, time, time, {"say": "done"}])
}

async fn used(bench: &Bench<'_>, more: Value) -> (Vec<String>, usize) {
    let crew = crew(bench, turns(), more, 4).await;
    let folder = workspace(&crew.engine);
    std::fs::create_dir_all(&folder).unwrap();
    let file = std::fs::File::create(folder.join("notes.txt")).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    let answer = crew.ask("main", "go").await.unwrap();
    assert_eq!(answer.text, "done");
    let is_reused = |data: &Option<Value>| data.as_ref().is_some_and(|data| data["reused"] == true);
    let told = answer.calls.iter().map(|(call, result)| {
        format!("{}{}", call.name, if is_reused(&result.data) { " reused" } else { "" })
    });
    let told = told.collect();
    let recorded = on_record(&crew.engine, "tool.reused").await.len();
    crew.close().await;
    (told, recorded)
}

async fn a_look_that_was_just_taken_is_not_taken_again_until_something_was_done(bench: &Bench<'_>) {
    let (told, recorded) = used(bench, json!({})).await;
    assert_eq!(told, ["read", "read reused", "write", "read", "time.now", "time.now"]);
    assert_eq!(recorded, 1);
}

async fn without_reuse_every_call_runs(bench: &Bench<'_>) {
    let (told, recorded) = used(bench, json!({"tools": {"reuseSeconds": 0}})).await;
    assert_eq!(told, ["read", "read", "write", "read", "time.now", "time.now"]);
    assert_eq!(recorded, 0);
}

async fn a_note_says_where_it_came_from(bench: &Bench<'_>) {
    let note = calls("memory_append", &json!({"text": "the key: third stone", "file": "keys.md"}));
    let crew = crew(bench, json!([note, {"say": "noted"}]), json!({}), 4).await;
    let answer = crew.ask("main", "remember it").await.unwrap();
    let file = workspace(&crew.engine).join("memory/keys.md");
    let expected = format!("- the key: third stone [main, {}]\n", answer.run.alias());
    assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    crew.close().await;
}
