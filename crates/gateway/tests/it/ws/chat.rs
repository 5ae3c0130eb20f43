//! A conversation over the socket: what is told while an agent answers, and what is read afterwards.

use serde_json::json;

use super::client::{chat, entered, named, operator, program};
use crate::house::House;

#[tokio::test]
async fn an_answer_is_told_word_by_word_and_its_end_once() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    client.payload("sessions.subscribe", json!({})).await;
    client.payload("sessions.messages.subscribe", json!({ "key": "agent:main:main" })).await;
    let sent = json!({ "sessionKey": "agent:main:main", "message": "hello there", "idempotencyKey": "r1" });
    let ack = client.payload("chat.send", sent.clone()).await;
    assert_eq!(ack, json!({ "runId": "r1", "status": "started" }));
    let told = client
        .until(|event| event["event"] == "sessions.changed" && event["payload"]["phase"] == "end")
        .await;

    let agent: Vec<_> = told.iter().filter(|event| event["event"] == "agent").collect();
    assert_eq!(agent[0]["payload"]["data"]["phase"], "start");
    let seqs: Vec<_> = agent.iter().map(|event| event["payload"]["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let numbers: Vec<_> = told.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");

    let finals: Vec<_> = told.iter().filter(|event| chat("final")(event)).collect();
    assert_eq!(finals.len(), 1);
    let answer = finals[0]["payload"]["message"]["content"][0]["text"].as_str().unwrap();
    assert!(answer.contains("hello there"), "{answer}");
    let words = agent.iter().rev().find(|event| event["payload"]["stream"] == "assistant").unwrap();
    assert_eq!(words["payload"]["data"]["text"], answer);

    let lines: Vec<_> = told.iter().filter(|event| event["event"] == "session.message").collect();
    let roles: Vec<_> =
        lines.iter().map(|line| line["payload"]["message"]["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant"], "each line of the log once");
    assert_eq!(lines[0]["payload"]["message"]["idempotencyKey"], "r1:user");
    assert_eq!(lines[0]["payload"]["message"]["__openclaw"]["idempotencyKey"], "r1:user");
    let started = told.iter().find(|event| event["event"] == "sessions.changed").unwrap();
    assert_eq!(started["payload"]["session"]["activeRunIds"], json!(["r1"]));

    let history = client.payload("chat.history", json!({ "sessionKey": "main", "limit": 10 })).await;
    let messages = history["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["idempotencyKey"], "r1:user");
    assert_eq!(messages[1]["content"][0]["text"], answer);
    // The same key is the same message, and another text under it is refused.
    assert_eq!(client.payload("chat.send", sent).await, json!({ "runId": "r1", "status": "ok" }));
    let other = json!({ "sessionKey": "agent:main:main", "message": "other", "idempotencyKey": "r1" });
    assert_eq!(client.refusal("chat.send", other).await.0, "INVALID_REQUEST");
}

#[tokio::test]
async fn agent_answers_twice_and_another_request_is_answered_between() {
    let house = House::held().await;
    let mut client = operator(&house).await;
    let id = client
        .ask("agent", json!({ "message": "long work", "agentId": "main", "idempotencyKey": "a1" }))
        .await;
    let first = client.answer(&id).await;
    assert_eq!((&first["payload"]["runId"], &first["payload"]["status"]), (&json!("a1"), &json!("accepted")));
    let list = client.payload("sessions.list", json!({})).await;
    assert_eq!(list["count"], 0);
    let waited = client.payload("agent.wait", json!({ "runId": "a1", "timeoutMs": 1 })).await;
    assert_eq!(waited, json!({ "runId": "a1", "status": "timeout" }));
    house.models.open();
    let second = client.answer(&id).await;
    assert_eq!(second["payload"]["status"], "ok");
    let text = second["payload"]["result"]["payloads"][0]["text"].as_str().unwrap();
    assert!(text.contains("long work"), "{text}");
    let waited = client.payload("agent.wait", json!({ "runId": "a1" })).await;
    assert_eq!(waited["status"], "ok");
    let list = client.payload("sessions.list", json!({ "includeLastMessage": true })).await;
    assert_eq!(list["sessions"][0]["key"], "agent:main:main");
    let mismatch = json!({ "message": "x", "agentId": "main", "sessionKey": "agent:other:main", "idempotencyKey": "a2" });
    assert_eq!(client.refusal("agent", mismatch).await.0, "INVALID_REQUEST");
}

#[tokio::test]
async fn an_abort_ends_the_run_for_everybody_who_watches() {
    let house = House::held().await;
    let mut client = operator(&house).await;
    let (mut other, _) = entered(&house, program(&house, &["operator.read"])).await;
    let sent = json!({ "sessionKey": "main", "message": "never ends", "idempotencyKey": "r9" });
    client.payload("chat.send", sent).await;
    other.event(named("agent")).await;
    let wrong = json!({ "sessionKey": "agent:main:elsewhere", "runId": "r9" });
    assert_eq!(client.refusal("chat.abort", wrong).await.1, "runId does not match sessionKey");
    let aborted = client.payload("chat.abort", json!({ "sessionKey": "main", "runId": "r9" })).await;
    assert_eq!(aborted, json!({ "ok": true, "aborted": true, "runIds": ["r9"] }));
    for client in [&mut client, &mut other] {
        let told = client.event(chat("aborted")).await;
        assert_eq!(
            (&told["payload"]["runId"], &told["payload"]["stopReason"]),
            (&json!("r9"), &json!("rpc"))
        );
    }
    let again = client
        .payload("chat.send", json!({ "sessionKey": "main", "message": "/stop", "idempotencyKey": "s" }))
        .await;
    assert_eq!(again, json!({ "ok": true, "aborted": false, "runIds": [] }));
}
