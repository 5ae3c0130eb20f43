//! A conversation live.

use serde_json::{Value, json};
use tidegate_protocol::RunState;
use tidegate_protocol::api::Ask;

use crate::ask::ask;
use crate::house::{House, LONG, is, until};
use crate::wire::EventReader;

async fn feed(house: &House) -> EventReader {
    EventReader::new(house.owner("GET", "/api/v1/sessions/main/events").open().await)
}

async fn post(house: &House, session: &str, text: &str, key: &str) -> String {
    let call = house.owner("POST", &format!("/api/v1/sessions/{session}/messages"));
    let reply = call.json(&json!({"text": text, "key": key})).send().await;
    reply.json()["runId"].as_str().unwrap().to_owned()
}

/// Reads a run to its `done`: the states it went through, its text, and the log lines.
async fn run_to_its_end(events: &mut EventReader, run: &str) -> (Vec<String>, String, Value) {
    let (mut states, mut text, mut last) = (Vec::new(), String::new(), 0);
    loop {
        let (event, data) = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(data["runId"], run, "{event} {data}");
        match event.as_str() {
            "run" => states.push(data["state"].as_str().unwrap().to_owned()),
            "delta" => {
                last += 1;
                assert_eq!(data["seq"], last, "no gap");
                text.push_str(data["text"].as_str().unwrap());
            }
            "done" => return (states, text, data["messages"].clone()),
            other => panic!("{other}"),
        }
    }
}

fn roles_and_texts(messages: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    messages.as_array().unwrap().iter().map(|line| (text(&line["role"]), text(&line["text"]))).collect()
}

#[tokio::test]
async fn a_feed_begins_with_a_snapshot_and_then_tells_every_change() {
    let house = House::open().await;
    let mut events = feed(&house).await;
    assert_eq!(events.expect("snapshot").await, json!({"session": "main", "messages": [], "runs": []}));
    let run = post(&house, "main", "hi", "k1").await;
    let (states, text, messages) = run_to_its_end(&mut events, &run).await;
    assert_eq!(states.last().map(String::as_str), Some("completed"));
    assert_eq!(
        roles_and_texts(&messages),
        [("user".to_owned(), "hi".to_owned()), ("assistant".to_owned(), text)]
    );
    assert_eq!(messages[0]["seq"], 1);
    let snapshot = feed(&house).await.expect("snapshot").await;
    assert_eq!((&snapshot["messages"], &snapshot["runs"]), (&messages, &json!([])));
}

#[tokio::test]
async fn whoever_comes_in_the_middle_of_an_answer_gets_what_there_is_and_then_the_rest() {
    let house = House::held().await;
    let mut first = feed(&house).await;
    first.expect("snapshot").await;
    let run = post(&house, "main", "hi", "k1").await;
    house.models.let_through(2);
    let mut told = String::new();
    while told.chars().count() < 24 {
        let (event, data) = first.next().await.unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        if event == "delta" {
            told.push_str(data["text"].as_str().unwrap());
        }
    }
    let mut second = feed(&house).await;
    let snapshot = second.expect("snapshot").await;
    let line = &snapshot["runs"][0];
    assert_eq!(
        (&line["runId"], &line["state"], &line["text"], &line["key"]),
        (&json!(run), &json!("running"), &json!("hi"), &json!("k1"))
    );
    assert_eq!(line["partial"]["text"], told);
    house.models.open();
    let (mut seq, mut text) = (line["partial"]["seq"].as_u64().unwrap(), told);
    let messages = loop {
        let (event, data) = second.next().await.unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        match event.as_str() {
            "delta" => {
                seq += 1;
                assert_eq!(data["seq"], seq, "no gap and nothing twice");
                text.push_str(data["text"].as_str().unwrap());
            }
            "done" => break data["messages"].clone(),
            _ => {}
        }
    };
    assert_eq!(messages[1]["text"], text);
}

#[tokio::test]
async fn a_message_that_waits_is_in_the_snapshot_and_so_is_one_that_was_ended() {
    let house = House::held().await;
    let mut bus = house.engine.events();
    let first = post(&house, "main", "one", "k1").await;
    until(&mut bus, is(&RunState::Running)).await;
    let second = post(&house, "main", "two", "k2").await;
    let shown = async || {
        let snapshot = feed(&house).await.expect("snapshot").await;
        let runs = snapshot["runs"].as_array().unwrap().clone();
        runs.iter()
            .map(|run| (run["runId"].as_str().unwrap().to_owned(), run["state"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown().await, [(first.clone(), "running".to_owned()), (second.clone(), "queued".to_owned())]);
    house.owner("POST", &format!("/api/v1/runs/{first}/abort")).send().await;
    until(&mut bus, is(&RunState::Aborted)).await;
    house.models.open();
    until(&mut bus, is(&RunState::Completed)).await;
    assert_eq!(shown().await, [(first, "aborted".to_owned())]);
}

#[tokio::test]
async fn only_the_conversation_that_was_asked_for_is_told() {
    let house = House::open().await;
    let mut events = feed(&house).await;
    events.expect("snapshot").await;
    let mut bus = house.engine.events();
    post(&house, "elsewhere", "hi", "k1").await;
    until(&mut bus, is(&RunState::Completed)).await;
    let run = post(&house, "main", "hi", "k2").await;
    run_to_its_end(&mut events, &run).await;
}

#[tokio::test]
async fn a_conversation_that_begins_anew_is_shown_anew() {
    let house = House::open().await;
    let mut bus = house.engine.events();
    post(&house, "main", "old", "k1").await;
    until(&mut bus, is(&RunState::Completed)).await;
    let mut events = feed(&house).await;
    assert_eq!(events.expect("snapshot").await["messages"].as_array().unwrap().len(), 2);
    let fresh = Ask { new_session: true, ..ask("new", "k2") };
    let (_, _stream) = house.client().ask(&fresh, LONG).await.unwrap();
    let snapshot = loop {
        let (event, data) = events.next().await.unwrap();
        if event == "snapshot" {
            break serde_json::from_str::<Value>(&data).unwrap();
        }
    };
    assert_eq!(snapshot["messages"][0]["text"], "new");
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 2);
}

/// The bus holds 1024 events; a reader that falls behind by more must not make anything grow, and still gets it right.
#[tokio::test]
async fn a_reader_that_is_too_slow_gets_a_new_snapshot_instead_of_a_backlog() {
    let house = House::open().await;
    let mut events = EventReader::new(house.control_call("GET", "/api/v1/sessions/main/events").open().await);
    events.expect("snapshot").await;
    let mut bus = house.engine.events();
    // Enough text to fill the connection, which nobody reads now.
    let large = "x".repeat(400_000);
    post(&house, "main", &large, "large").await;
    until(&mut bus, is(&RunState::Completed)).await;
    for round in 0..8 {
        let keys: Vec<String> = (0..64).map(|at| format!("{round}-{at}")).collect();
        let posts = keys.iter().map(|key| post(&house, "main", "small", key));
        futures_util::future::join_all(posts).await;
    }
    let last = post(&house, "main", "the last one", "last").await;
    let ended = house.engine.follow(last.parse().unwrap()).await.unwrap().end().await;
    assert!(ended.is_ok(), "{ended:?}");
    let (mut told, mut snapshots) = (std::collections::HashSet::new(), 0);
    loop {
        let (event, data) = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        match event.as_str() {
            "snapshot" => {
                snapshots += 1;
                let messages = data["messages"].as_array().unwrap();
                assert!(messages.len() <= 264, "{}", messages.len());
                if messages.iter().any(|line| line["runId"] == last.as_str()) {
                    break;
                }
            }
            "done" => {
                told.insert(data["runId"].as_str().unwrap().to_owned());
            }
            _ => {}
        }
        if told.contains(&last) {
            break;
        }
    }
    assert!(snapshots >= 1, "what was missed came as a snapshot");
    assert!(told.len() < 513, "not everything was kept for the slow reader: {}", told.len());
}
