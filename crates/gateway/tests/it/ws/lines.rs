//! Lines that no model writes or answers.

use serde_json::{Value, json};
use tidegate_testkit::network::Network;

use super::client::{Client, chat, named, operator};
use crate::house::{House, LONG};

async fn history(client: &mut Client, key: &str) -> Vec<Value> {
    let history = client.payload("chat.history", json!({ "sessionKey": key })).await;
    history["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_injected_line_is_in_the_log_marked_told_and_asks_nobody() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    client.payload("sessions.messages.subscribe", json!({ "key": "agent:main:main" })).await;
    let line = json!({ "sessionKey": "main", "message": "The shop is closed.", "label": "owner" });
    let told = client.payload("chat.inject", line).await;
    assert_eq!(told["ok"], true);
    let end = client.event(chat("final")).await["payload"].clone();
    assert!(end["runId"].as_str().unwrap().starts_with("inject-"), "{end}");
    assert_eq!(end["stopReason"], "injected");
    assert_eq!(end["message"]["content"][0]["text"], "[owner]\n\nThe shop is closed.");
    let messages = history(&mut client, "main").await;
    assert_eq!(messages.len(), 1, "no question, no answer: {messages:?}");
    let message = &messages[0];
    assert_eq!((&message["role"], &message["stopReason"]), (&json!("assistant"), &json!("injected")));
    assert_eq!(message["id"], told["messageId"]);
    // The next run stands behind it in the same log.
    let ask = json!({ "message": "hello", "idempotencyKey": "a1" });
    let id = client.ask("agent", ask).await;
    client.answer(&id).await;
    assert_eq!(client.answer(&id).await["payload"]["status"], "ok");
    assert_eq!(history(&mut client, "main").await.len(), 3);
    let empty = client.refusal("chat.inject", json!({ "sessionKey": "main", "message": " " })).await;
    assert_eq!(empty, ("INVALID_REQUEST".to_owned(), "the text is empty".to_owned()));
}

#[tokio::test]
async fn a_line_for_a_busy_conversation_waits_for_its_turn() {
    let house = House::held().await;
    let mut client = operator(&house).await;
    client.payload("sessions.messages.subscribe", json!({ "key": "agent:main:main" })).await;
    let ask = client.ask("agent", json!({ "message": "long work", "idempotencyKey": "a1" })).await;
    client.answer(&ask).await;
    let inject = client.ask("chat.inject", json!({ "sessionKey": "main", "message": "behind" })).await;
    house.models.open();
    assert_eq!(client.answer(&inject).await["payload"]["ok"], true);
    let roles: Vec<Value> =
        history(&mut client, "main").await.iter().map(|message| message["stopReason"].clone()).collect();
    assert_eq!(roles.len(), 3);
    assert_eq!(roles[2], "injected");
}

#[tokio::test]
async fn what_is_sent_goes_out_once_whoever_repeats_it_and_is_in_the_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::open(folder.path());
    let house = House::networked(network.clone()).await;
    let (mut client, mut twin) = (operator(&house).await, operator(&house).await);
    let send = json!({ "to": "ann", "message": "Tea is ready.", "channel": "local", "idempotencyKey": "s1" });
    let (first, second) =
        tokio::join!(client.payload("send", send.clone()), twin.payload("send", send.clone()));
    assert_eq!(first, second);
    assert_eq!((&first["runId"], &first["channel"]), (&json!("s1"), &json!("local")));
    assert_eq!(client.payload("send", send.clone()).await, first, "and again later");
    tokio::time::timeout(LONG, async {
        while network.visible().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let seen = network.visible();
    assert_eq!((seen.len(), seen[0].peer.as_str(), seen[0].text.as_str()), (1, "ann", "Tea is ready."));
    let rows = house.engine.library().outbox(house.engine.tenant(), every_part()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>(), [text(&first, "messageId")]);
    // Its conversation has it, so that an answer of Ann's is understood.
    let messages = history(&mut client, "agent:main:local:default:dm:ann").await;
    assert_eq!((messages.len(), &messages[0]["stopReason"]), (1, &json!("injected")));

    let mut other = send.clone();
    other["message"] = json!("Coffee is ready.");
    let conflict = client.call("send", other).await;
    assert_eq!(conflict["error"]["details"]["code"], "IDEMPOTENCY_CONFLICT");
    let mut elsewhere = send;
    elsewhere["to"] = json!("bob");
    assert_eq!(client.call("send", elsewhere).await["error"]["details"]["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(network.visible().len(), 1);
}

fn every_part() -> tidegate_storage::OutboxFilter {
    tidegate_storage::OutboxFilter { states: Vec::new(), channel: None, limit: 10 }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn whom_nothing_can_be_sent_to_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::networked(Network::open(folder.path())).await;
    let mut client = operator(&house).await;
    let refused = async |client: &mut Client, more: Value| {
        let mut send = json!({ "to": "ann", "message": "m", "idempotencyKey": "k" });
        send.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.refusal("send", send).await.1
    };
    for (more, message) in [
        (json!({ "channel": "pigeon" }), "unknown channel: pigeon; there are: local"),
        (json!({ "accountId": "work" }), "unknown account of local: work; there are: default"),
        (json!({ "to": "  " }), "to is empty: say whom to send it to"),
        (json!({ "mediaUrl": "http://x/y.png" }), "media cannot be sent yet; put a link into the message"),
    ] {
        assert_eq!(refused(&mut client, more).await, message);
    }
    let house = House::open().await;
    let mut client = operator(&house).await;
    let nowhere = refused(&mut client, json!({})).await;
    assert_eq!(nowhere, "no channel is configured here; see `channels` in the configuration");
}

#[tokio::test]
async fn an_agent_is_woken_now_or_told_with_its_next_run() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let later = json!({ "mode": "next-heartbeat", "text": "The lamp is on." });
    assert_eq!(client.payload("wake", later).await, json!({ "ok": true }));
    client.event(chat("final")).await;
    let messages = history(&mut client, "main").await;
    assert_eq!(messages.len(), 1, "nobody answers it: {messages:?}");
    let said = |message: &Value| (message["role"].clone(), message["content"][0]["text"].clone());
    assert_eq!(said(&messages[0]), (json!("user"), json!("System event: The lamp is on.")));
    let now = json!({ "mode": "now", "text": "The bell rang." });
    assert_eq!(client.payload("wake", now).await, json!({ "ok": true }));
    client.event(|event| chat("final")(event) && event["payload"]["message"].is_object()).await;
    let messages = history(&mut client, "main").await;
    assert_eq!(messages.len(), 3);
    assert_eq!(said(&messages[1]), (json!("user"), json!("System event: The bell rang.")));
    assert_eq!(messages[2]["role"], "assistant");
    let wrong = client.refusal("wake", json!({ "mode": "tomorrow", "text": "x" })).await;
    assert_eq!(wrong.1, "mode must be `now` or `next-heartbeat`");
}

#[tokio::test]
async fn how_somebody_talks_is_kept_and_told_to_all_and_to_whoever_comes() {
    let house = House::open().await;
    let (mut client, mut other) = (operator(&house).await, operator(&house).await);
    let mode = client.payload("talk.mode", json!({ "enabled": true, "phase": "listening" })).await;
    assert_eq!((&mode["enabled"], &mode["phase"]), (&json!(true), &json!("listening")));
    assert_eq!(other.event(named("talk.mode")).await["payload"], mode);
    let mut late = operator(&house).await;
    assert_eq!(late.event(named("talk.mode")).await["payload"], mode);
    let mode = client.payload("talk.mode", json!({ "enabled": false })).await;
    assert_eq!(mode["phase"], Value::Null);
    assert_eq!(late.event(named("talk.mode")).await["payload"], mode);
}
