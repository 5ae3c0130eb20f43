//! What is counted: the lanes in the status, and the page for Prometheus.

use serde_json::{Value, json};
use tidegate_protocol::RunState;

use crate::house::{House, LONG, is, until};
use crate::wire::EventReader;

async fn post(house: &House, session: &str, key: &str) {
    let call = house.owner("POST", &format!("/api/v1/sessions/{session}/messages"));
    call.json(&json!({"text": "hi", "key": key})).send().await;
}

async fn lane(house: &House, name: &str) -> Value {
    let status = house.owner("GET", "/api/v1/status").send().await.json();
    let lanes = status["lanes"].as_array().unwrap().clone();
    lanes.into_iter().find(|lane| lane["lane"] == name).unwrap()
}

async fn metrics(house: &House) -> Vec<String> {
    let reply = house.owner("GET", "/metrics").send().await;
    assert!(reply.header("content-type").starts_with("text/plain; version=0.0.4"));
    String::from_utf8(reply.body).unwrap().lines().map(str::to_owned).collect()
}

/// Whether the line is there, word for word.
fn has(lines: &[String], line: &str) {
    assert!(lines.iter().any(|written| written == line), "{line} is not in {lines:#?}");
}

#[tokio::test]
async fn runs_are_counted_by_lane_and_by_how_they_ended() {
    let house = House::open().await;
    let mut bus = house.engine.events();
    for key in ["k1", "k2"] {
        post(&house, "main", key).await;
        until(&mut bus, is(&RunState::Completed)).await;
    }
    let lines = metrics(&house).await;
    for line in [
        "tidegate_ready 1",
        "tidegate_lane_limit{lane=\"main\"} 64",
        "tidegate_lane_limit{lane=\"nested\"} 2",
        "tidegate_turns_total{lane=\"main\"} 2",
        "tidegate_turns_total{lane=\"cron\"} 0",
        "tidegate_lane_wait_seconds_count{lane=\"main\"} 2",
        "tidegate_lane_wait_seconds_bucket{lane=\"main\",le=\"+Inf\"} 2",
        "tidegate_runs{state=\"completed\"} 2",
        "tidegate_inbox_depth 0",
        "tidegate_outbox_depth 0",
        "tidegate_ws_clients 0",
        "tidegate_sessions 1",
    ] {
        has(&lines, line);
    }
    let families: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut once = families.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), families.len(), "each family is named once");
    let is_known =
        |line: &String| line.starts_with('#') || families.iter().any(|name| line.starts_with(name));
    assert!(lines.iter().all(is_known), "{lines:#?}");
    assert_eq!(lane(&house, "main").await["started"], 2);
}

#[tokio::test]
async fn whoever_waits_for_a_place_is_in_the_status_and_told_on_the_feed() {
    let house = House::with(Some(&json!({"lanes": {"main": 1, "warnAfterMs": 100}}))).await;
    let mut bus = house.engine.events();
    post(&house, "busy", "k1").await;
    until(&mut bus, is(&RunState::Running)).await;
    let mut events = EventReader::new(house.owner("GET", "/api/v1/sessions/main/events").open().await);
    events.expect("snapshot").await;
    post(&house, "main", "k2").await;
    assert_eq!(events.expect("run").await["state"], "queued");
    let waits = tokio::time::timeout(LONG, events.expect("waits")).await.unwrap();
    assert_eq!((&waits["lane"], &waits["ahead"]), (&json!("main"), &json!(0)));
    let main = lane(&house, "main").await;
    let told = [&main["limit"], &main["running"], &main["waiting"], &main["warnings"]];
    assert_eq!(told, [1, 1, 1, 1]);
    assert!(main["oldestWaitMs"].as_u64() >= Some(100), "{main}");
    has(&metrics(&house).await, "tidegate_lane_waiting{lane=\"main\"} 1");
    house.models.open();
    until(&mut bus, |change| change.key.label() == "main" && change.state == RunState::Completed).await;
    assert_eq!(lane(&house, "main").await["waiting"], 0);
}
