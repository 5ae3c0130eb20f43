//! Commands on the page, and the logs of a conversation.

use serde_json::{Value, json};

use crate::house::House;
use crate::wire::EventReader;

async fn feed(house: &House) -> EventReader {
    EventReader::new(house.owner("GET", "/api/v1/sessions/main/events").open().await)
}

async fn post(house: &House, text: &str, key: &str) {
    let call = house.owner("POST", "/api/v1/sessions/main/messages");
    call.json(&json!({"text": text, "key": key})).send().await;
}

/// Reads on until an event of this name says so.
async fn until(events: &mut EventReader, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let (event, data) = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        if event == name && is_it(&data) {
            return data;
        }
    }
}

#[tokio::test]
async fn what_a_command_answers_is_shown_live_and_afterwards_and_a_new_conversation_is_empty() {
    let house = House::open().await;
    let mut events = feed(&house).await;
    events.expect("snapshot").await;
    post(&house, "hello", "k1").await;
    until(&mut events, "done", |_| true).await;
    post(&house, "/title A trip", "k2").await;
    let told = until(&mut events, "delta", |data| data["text"] != "").await;
    assert_eq!(told["text"], "Title: A trip");
    until(&mut events, "run", |data| data["state"] == "completed").await;
    let snapshot = feed(&house).await.expect("snapshot").await;
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 2);
    assert_eq!(snapshot["runs"][0]["text"], "/title A trip");
    assert_eq!(snapshot["runs"][0]["partial"]["text"], "Title: A trip");
    post(&house, "/new", "k3").await;
    let anew = until(&mut events, "snapshot", |_| true).await;
    assert_eq!((&anew["messages"], &anew["runs"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn a_conversation_is_forked_named_and_its_logs_are_listed() {
    let house = House::open().await;
    let mut events = feed(&house).await;
    events.expect("snapshot").await;
    for (text, key) in [("one", "k1"), ("two", "k2")] {
        post(&house, text, key).await;
        until(&mut events, "done", |_| true).await;
    }
    let call = async |verb: &str, body: Value| {
        house.owner("POST", &format!("/api/v1/sessions/main/{verb}")).json(&body).send().await
    };
    let forked = call("fork", json!({"afterSeq": 2})).await.json();
    let listed = house.owner("GET", "/api/v1/sessions/main/branches").send().await.json();
    let branches = listed["branches"].as_array().unwrap();
    assert_eq!(branches.len(), 2, "{listed}");
    let new = branches.iter().find(|branch| branch["id"] == forked["id"]).unwrap();
    assert_eq!((&new["current"], &new["lines"], &new["forkSeq"]), (&json!(true), &json!(2), &json!(2)));
    assert_eq!(new["parent"], forked["before"]);
    assert_eq!(call("title", json!({"title": "A trip"})).await.status, 204);
    let listed = house.owner("GET", "/api/v1/sessions/main/branches").send().await.json();
    assert!(listed["branches"].as_array().unwrap().iter().any(|branch| branch["title"] == "A trip"));
    assert_eq!(call("fork", json!({"afterSeq": 99})).await.status, 404);
    assert_eq!(call("fork", json!({"source": "nowhere"})).await.status, 404);
    let nobody =
        house.owner("POST", "/api/v1/sessions/nobody/title").json(&json!({"title": "x"})).send().await;
    assert_eq!(nobody.status, 404);
}
