//! Messages to a conversation, and the list of conversations.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate_protocol::RunState;

use crate::house::{House, is, until};
use crate::wire::Reply;

async fn post(house: &House, session: &str, text: &str, key: &str) -> Reply {
    let call = house.owner("POST", &format!("/api/v1/sessions/{session}/messages"));
    call.json(&json!({"text": text, "key": key})).send().await
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let house = House::open().await;
    let mut events = house.engine.events();
    let first = post(&house, "main", "hi", "k1").await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    until(&mut events, is(&RunState::Completed)).await;
    let again = post(&house, "main", "hi", "k1").await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, first.json()));
    let other = post(&house, "main", "another text", "k1").await;
    assert_eq!((other.status, other.code().as_str()), (StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"));
    let status: Value = house.owner("GET", "/api/v1/status").send().await.json();
    assert_eq!(status["counts"]["runs"], json!([{"state": "completed", "count": 1}]));
}

#[tokio::test]
async fn conversations_are_listed_by_their_last_use_under_names_that_lead_back() {
    let house = House::open().await;
    let mut events = house.engine.events();
    for (session, text) in [("main", "first"), ("trip%20to%20%2F", "Where to go\nin May?")] {
        post(&house, session, text, session).await;
        until(&mut events, is(&RunState::Completed)).await;
    }
    let list = house.owner("GET", "/api/v1/sessions").send().await.json();
    let shown: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (&item["name"], &item["title"], &item["running"]))
        .collect();
    let expected = [
        (&json!("trip to /"), &json!("Where to go"), &json!(false)),
        (&json!("main"), &json!("main"), &json!(false)),
    ];
    assert_eq!(shown, expected);
    let removed = house.owner("DELETE", "/api/v1/sessions/trip%20to%20%2F").send().await;
    assert_eq!(removed.json()["removed"].as_array().unwrap().len(), 1);
    let whole = "tenant%3Alocal%2Fworkspace%3Adefault%2Fagent%3Amain%2Fmain";
    assert_eq!(post(&house, whole, "by its whole key", "w").await.status, StatusCode::ACCEPTED);
    let list = house.owner("GET", "/api/v1/sessions").send().await.json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_conversation_that_is_being_answered_says_so() {
    let house = House::held().await;
    let mut events = house.engine.events();
    let run = post(&house, "main", "hi", "k").await.json()["runId"].as_str().unwrap().to_owned();
    until(&mut events, is(&RunState::Running)).await;
    let list = house.owner("GET", "/api/v1/sessions").send().await.json();
    assert_eq!(list["sessions"][0]["running"], true);
    let busy = house.owner("DELETE", "/api/v1/sessions/main").send().await;
    assert_eq!((busy.status, busy.code().as_str()), (StatusCode::CONFLICT, "SESSION_BUSY"));
    let abort = || house.owner("POST", &format!("/api/v1/runs/{run}/abort")).send();
    assert_eq!(abort().await.status, StatusCode::NO_CONTENT);
    until(&mut events, is(&RunState::Aborted)).await;
    assert_eq!(abort().await.status, StatusCode::NO_CONTENT, "asking twice is the same as once");
}
