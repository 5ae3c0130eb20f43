//! Methods beside chat: conversations, configuration, questions, presence.

use serde_json::json;

use super::client::{chat, entered, named, operator, program};
use crate::house::House;

async fn said(client: &mut super::client::Client, session: &str, text: &str) {
    client
        .payload("chat.send", json!({ "sessionKey": session, "message": text, "idempotencyKey": text }))
        .await;
    client.event(|event| chat("final")(event) && event["payload"]["runId"] == text).await;
}

#[tokio::test]
async fn a_conversation_is_found_changed_begun_anew_and_taken_away() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    said(&mut client, "agent:main:work", "about work").await;
    let described = client.payload("sessions.describe", json!({ "key": "agent:main:work" })).await;
    let id = described["session"]["sessionId"].as_str().unwrap().to_owned();
    let resolved = client.payload("sessions.resolve", json!({ "sessionId": id })).await;
    assert_eq!(resolved, json!({ "ok": true, "key": "agent:main:work", "agentId": "main" }));
    let both = json!({ "sessionId": id, "key": "agent:main:work" });
    assert_eq!(client.refusal("sessions.resolve", both).await.0, "INVALID_REQUEST");
    let preview =
        client.payload("sessions.preview", json!({ "keys": ["agent:main:work", "agent:main:none"] })).await;
    assert_eq!(preview["previews"][0]["items"][0], json!({ "role": "user", "text": "about work" }));
    assert_eq!(preview["previews"][1]["status"], "missing");

    let patch = json!({ "key": "agent:main:work", "thinkingLevel": "high", "label": "Work" });
    let patched = client.payload("sessions.patch", patch).await;
    assert_eq!(
        (&patched["entry"]["thinkingLevel"], &patched["entry"]["label"]),
        (&json!("high"), &json!("Work"))
    );
    let back =
        client.payload("sessions.patch", json!({ "key": "agent:main:work", "thinkingLevel": null })).await;
    assert_eq!(back["entry"].get("thinkingLevel"), None);
    let unserved = json!({ "key": "agent:main:work", "sendPolicy": "deny" });
    assert!(client.refusal("sessions.patch", unserved).await.1.contains("sendPolicy"));

    client.payload("sessions.reset", json!({ "key": "agent:main:work" })).await;
    said(&mut client, "agent:main:work", "anew").await;
    let history = client.payload("chat.history", json!({ "sessionKey": "agent:main:work" })).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
    let main = client.refusal("sessions.delete", json!({ "key": "main" })).await;
    assert_eq!(main.1, "Cannot delete the main session (agent:main:main).");
    let deleted = client.payload("sessions.delete", json!({ "key": "agent:main:work" })).await;
    assert_eq!(deleted["deleted"], true);
}

#[tokio::test]
async fn parameters_are_checked_against_the_row() {
    let house = House::open().await;
    let mut params = program(&house, &["operator.admin"]);
    params["maxProtocol"] = json!(3);
    let (mut client, _) = entered(&house, params).await;
    for (method, params, message) in [
        (
            "chat.send",
            json!({}),
            "invalid chat.send params: must have required property 'sessionKey'; must have required property 'message'; must have required property 'idempotencyKey'",
        ),
        (
            "chat.history",
            json!({ "sessionKey": "k", "limit": 5000 }),
            "invalid chat.history params: at /limit: must be <= 1000",
        ),
        (
            "sessions.list",
            json!({ "bogus": true, "limit": "x" }),
            "invalid sessions.list params: at root: unexpected property 'bogus'; at /limit: must be integer",
        ),
        (
            "logs.tail",
            json!({ "cursor": -1, "limit": 0, "maxBytes": "x" }),
            "invalid logs.tail params: at /cursor: must be >= 0; at /limit: must be >= 1; at /maxBytes: must be integer",
        ),
        (
            "send",
            json!({ "to": "x", "message": "m" }),
            "invalid send params: must have required property 'idempotencyKey'",
        ),
    ] {
        assert_eq!(client.refusal(method, params).await, ("INVALID_REQUEST".to_owned(), message.to_owned()));
    }
    assert_eq!(client.refusal("cron.remove", json!({ "id": "j" })).await.0, "UNAVAILABLE");
    // A newer client may say more than we know.
    let mut newer = operator(&house).await;
    newer.payload("sessions.list", json!({ "bogus": true })).await;
}

#[tokio::test]
async fn the_configuration_is_read_and_changed_without_losing_what_others_wrote() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let empty = client.payload("config.get", json!({})).await;
    assert_eq!((&empty["exists"], &empty["valid"]), (&json!(false), &json!(true)));
    client.payload("config.set", json!({ "raw": "{ gateway: { port: 1234 } }" })).await;
    let now = client.payload("config.get", json!({})).await;
    assert_eq!(now["parsed"], json!({ "gateway": { "port": 1234 } }));
    let patch = "{ gateway: { hosts: ['gate.example'] } }";
    let blind = client.refusal("config.patch", json!({ "raw": patch })).await;
    assert_eq!(blind.1, "config base hash required; re-run config.get and retry");
    let stale = client.refusal("config.patch", json!({ "raw": patch, "baseHash": "x" })).await;
    assert_eq!(stale.1, "config changed since last load; re-run config.get and retry");
    let patched = client.payload("config.patch", json!({ "raw": patch, "baseHash": now["hash"] })).await;
    assert_eq!(patched["restart"]["ok"], false);
    let now = client.payload("config.get", json!({})).await;
    assert_eq!(now["parsed"], json!({ "gateway": { "port": 1234, "hosts": ["gate.example"] } }));
    let wrong = client
        .refusal("config.apply", json!({ "raw": "{ gateway: { prot: 1 } }", "baseHash": now["hash"] }))
        .await;
    assert!(wrong.1.starts_with("invalid config: "), "{wrong:?}");
    assert_eq!(client.payload("config.schema", json!({})).await["schema"]["type"], "object");
}

#[tokio::test]
async fn a_question_is_held_until_somebody_decides() {
    let house = House::open().await;
    let mut asker = operator(&house).await;
    let (mut judge, _) = entered(&house, program(&house, &["operator.approvals"])).await;
    let question = json!({ "id": "e1", "command": "rm -r /tmp/x", "timeoutMs": 20_000 });
    let id = asker.ask("exec.approval.request", question.clone()).await;
    let asked = judge.event(named("exec.approval.requested")).await;
    assert_eq!(asked["payload"]["request"]["command"], "rm -r /tmp/x");
    let listed = judge.payload("exec.approval.list", json!({})).await;
    assert_eq!(listed[0]["id"], "e1");
    assert_eq!(asker.refusal("exec.approval.request", question).await.1, "approval id already pending");
    let resolve = |decision: &str| json!({ "id": "e1", "decision": decision });
    assert_eq!(judge.refusal("exec.approval.resolve", resolve("maybe")).await.1, "invalid decision");
    assert_eq!(judge.payload("exec.approval.resolve", resolve("allow-once")).await, json!({ "ok": true }));
    assert_eq!(asker.answer(&id).await["payload"]["decision"], "allow-once");
    assert_eq!(judge.event(named("exec.approval.resolved")).await["payload"]["decision"], "allow-once");
    assert_eq!(judge.refusal("exec.approval.resolve", resolve("deny")).await.1, "unknown approval id");
    let unanswered = json!({ "command": "x", "timeoutMs": 1 });
    assert_eq!(asker.payload("exec.approval.request", unanswered).await["decision"], json!(null));
}

#[tokio::test]
async fn who_leaves_is_missed() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let mut params = program(&house, &["operator.read"]);
    params["client"]["displayName"] = json!("Guest");
    let (guest, hello) = entered(&house, params).await;
    let is_there = |list: &serde_json::Value| list.to_string().contains("Guest");
    assert!(!is_there(&hello["snapshot"]["presence"]), "who says hello is not there yet");
    assert!(is_there(&client.payload("system-presence", json!({})).await));
    drop(guest);
    let told = client.event(|event| event["event"] == "presence" && !is_there(event)).await;
    assert!(told["stateVersion"]["presence"].as_u64().unwrap() > 1);
}
