//! What clients hear while the gateway closes: new work is refused for now, no end is told that is none, and the last
//! word has a reason.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_engine::Drain;
use tokio_tungstenite::tungstenite::Error;

use super::client::{Client, Read, named, operator};
use crate::house::{House, LONG};

fn message(key: &str) -> Value {
    json!({ "sessionKey": "agent:main:main", "message": "hello there", "idempotencyKey": key })
}

#[tokio::test]
async fn new_work_is_refused_for_now_and_reading_goes_on() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    house.engine.stop_accepting();
    for (method, params) in
        [("chat.send", message("r1")), ("agent", json!({ "message": "hi", "idempotencyKey": "r2" }))]
    {
        let refused = client.call(method, params).await;
        let error = &refused["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!("UNAVAILABLE"), &json!(true)), "{refused}");
        assert_eq!(error["details"]["code"], "CLOSING", "{refused}");
    }
    client.payload("sessions.list", json!({})).await;
    let Err(Error::Http(late)) = Client::open(&house, "/", &[]).await else { panic!("it was let in") };
    assert_eq!(late.status(), 503);
    assert!(late.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_run_that_is_given_back_has_no_end_and_nobody_waits_for_one() {
    let house = House::held().await;
    let mut client = operator(&house).await;
    house.models.let_through(1);
    assert_eq!(client.payload("chat.send", message("r1")).await["status"], "started");
    client.event(named("chat")).await;
    let wait = client.ask("agent.wait", json!({ "runId": "r1", "timeoutMs": 30_000 })).await;
    // Answered requests come in order, so the one before it has begun.
    client.payload("health", json!({})).await;
    let drained = house.engine.close(Drain::Within(Duration::ZERO)).await;
    assert_eq!(drained.given_back, 1);
    house.port.comes_back_in(Duration::from_millis(700));
    for server in [&house.port, &house.control] {
        server.stop_listening();
    }
    let (mut told, mut waited) = (Vec::new(), None);
    let code = loop {
        match client.read().await {
            Read::Frame(frame) if frame["id"] == wait => waited = Some(frame["payload"]["status"].clone()),
            Read::Frame(frame) => told.push(frame),
            Read::Closed(code, _) => break code,
        }
    };
    assert_eq!(code, 1012, "{told:?}");
    assert_eq!(waited, Some(json!("timeout")), "whoever waits for its end may wait again");
    let ends =
        |frame: &&Value| matches!(frame["payload"]["state"].as_str(), Some("final" | "error" | "aborted"));
    assert_eq!(told.iter().find(ends), None, "it goes on at the next start");
    let shutdown = told.iter().find(|frame| frame["event"] == "shutdown").expect("it is told");
    assert_eq!(shutdown["payload"]["restartExpectedMs"], 700);
    tokio::time::timeout(LONG, house.port.drained()).await.expect("nothing is left");
}

#[tokio::test]
async fn what_is_left_of_connections_can_be_cut_off() {
    let house = House::held().await;
    let mut client = operator(&house).await;
    assert_eq!(client.payload("chat.send", message("r1")).await["status"], "started");
    // It asks for something that does not come, and the run goes on.
    client.ask("agent.wait", json!({ "runId": "r1", "timeoutMs": 30_000 })).await;
    for server in [&house.port, &house.control] {
        server.stop_listening();
        server.cut_off();
    }
    for server in [&house.port, &house.control] {
        tokio::time::timeout(LONG, server.drained()).await.expect("nothing is left");
    }
}
