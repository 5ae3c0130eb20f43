//! A handler that panics answers, and nobody else feels it. The fault is armed in a process of its own.

use std::process::Command;

use serde_json::json;

use super::client::operator;
use super::foal::foal;
use crate::house::House;

const ARMED: &str = "TIDEGATE_FAULT";

/// Runs a test of this file again with a fault armed.
fn with_fault(test: &str, fault: &str) {
    let own = std::env::current_exe().unwrap();
    let told = Command::new(own)
        .args(["--exact", &format!("ws::panics::{test}"), "--ignored", "--nocapture"])
        .env(ARMED, fault)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(
        told.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&told.stderr)
    );
}

#[test]
fn a_method_that_panics_answers_unavailable_and_the_next_call_is_served() {
    for hit in 1..=2 {
        with_fault("methods_with_a_fault", &format!("gateway.method.called=panic@{hit}"));
    }
}

#[test]
fn an_address_that_panics_answers_500_in_its_own_words_and_the_next_call_is_served() {
    for hit in 1..=3 {
        with_fault("addresses_with_a_fault", &format!("gateway.http.entered=panic@{hit}"));
    }
}

#[tokio::test]
#[ignore = "run by another test of this file, with a fault armed"]
async fn methods_with_a_fault() {
    let house = House::open().await;
    let (mut client, mut other) = (operator(&house).await, foal(&house).await);
    let session = json!({ "idempotencyKey": "k" });
    let answers = [
        ("UNAVAILABLE", client.call("status", json!({})).await),
        ("INTERNAL_ERROR", other.call("sessions.create", session.clone()).await),
    ];
    let broken: Vec<_> = answers.iter().filter(|(_, answer)| answer["ok"] == false).collect();
    let [(code, answer)] = broken.as_slice() else { panic!("one is broken: {answers:?}") };
    assert_eq!(answer["error"]["code"], *code, "{answer}");
    assert_eq!(answer["error"]["details"]["code"], "INTERNAL");
    // Both go on, and so does the house.
    other.payload("sessions.create", session).await;
    client.payload("status", json!({})).await;
    assert_eq!(house.engine.health().problems.len(), 0);
}

#[tokio::test]
#[ignore = "run by another test of this file, with a fault armed"]
async fn addresses_with_a_fault() {
    let said = json!({ "hooks": { "enabled": true, "token": "hook-token" } });
    let house = House::configured(&said).await;
    let addresses = [("/api/v1/me", "INTERNAL"), ("/v1/models", "INTERNAL"), ("/hooks/wake", "")];
    let mut broken = Vec::new();
    for (path, _) in addresses {
        let reply = house.owner("GET", path).send().await;
        if reply.status.as_u16() == 500 {
            broken.push((path, reply.json()));
        }
    }
    let [(path, body)] = broken.as_slice() else { panic!("one is broken: {broken:?}") };
    let message = "the request failed because of a fault in the gateway; its log says where";
    match *path {
        "/hooks/wake" => assert_eq!(*body, json!({ "ok": false, "error": message })),
        "/v1/models" => {
            assert_eq!(body["error"]["message"], message);
            assert!(body["error"].get("type").is_some(), "{body}");
        }
        _ => assert_eq!(
            (&body["error"]["code"], &body["error"]["message"]),
            (&json!("INTERNAL"), &json!(message))
        ),
    }
    assert_eq!(house.owner("GET", "/api/v1/me").send().await.status.as_u16(), 200);
}
