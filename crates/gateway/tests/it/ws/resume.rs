//! A client that comes back hears what it missed.

use serde_json::json;

use super::client::{chat, entered, operator, program};
use crate::house::House;

#[tokio::test]
async fn what_was_told_meanwhile_is_told_again_in_order() {
    let house = House::open().await;
    let mut witness = operator(&house).await;
    let (client, hello) = entered(&house, program(&house, &["operator.read"])).await;
    let boot = hello["server"]["bootId"].clone();
    drop(client);
    let sent = json!({ "sessionKey": "main", "message": "while you were away", "idempotencyKey": "r1" });
    witness.payload("chat.send", sent).await;
    let last = witness.event(chat("final")).await["seq"].as_u64().unwrap();

    let (mut back, _) = entered(&house, program(&house, &["operator.read"])).await;
    let resumed = back.ask("events.resume", json!({ "bootId": boot, "afterSeq": 0 })).await;
    let told = back.until(|event| event["seq"] == last).await;
    let kinds: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["agent", "agent", "chat"], "the beginning and the end; words are not kept");
    assert!(told.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()));
    assert_eq!(back.answer(&resumed).await["payload"]["resumed"], true);
    // Numbers of another process mean nothing.
    let other = back.payload("events.resume", json!({ "bootId": "another", "afterSeq": 0 })).await;
    assert_eq!(other["resumed"], false);
}

#[tokio::test]
async fn a_log_is_watched_from_the_last_message_that_a_client_has() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    for key in ["one", "two"] {
        client
            .payload("chat.send", json!({ "sessionKey": "main", "message": key, "idempotencyKey": key }))
            .await;
        client.event(chat("final")).await;
    }
    let mut back = operator(&house).await;
    let watched = back.ask("sessions.messages.subscribe", json!({ "key": "main", "afterSeq": 2 })).await;
    let missed = back.until(|event| event["payload"]["messageSeq"] == 4).await;
    let roles: Vec<_> =
        missed.iter().map(|event| event["payload"]["message"]["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant"]);
    let answer = back.answer(&watched).await;
    assert_eq!((&answer["payload"]["headSeq"], &answer["payload"]["hasMore"]), (&json!(4), &json!(false)));
}
