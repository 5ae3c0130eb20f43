//! The dialect `openfoal` on `/ws`.

use serde_json::{Value, json};

use super::client::{Client, named};
use crate::house::House;

pub(super) async fn foal(house: &House) -> Client {
    let mut client = Client::open(house, "/ws", &[]).await.unwrap();
    let hello = client.payload("connect", json!({ "auth": { "token": house.token } })).await;
    assert_eq!(hello["protocolVersion"], "1.0.0");
    client
}

#[tokio::test]
async fn nobody_is_served_before_they_say_who_they_are() {
    let house = House::open().await;
    let mut client = Client::open(&house, "/ws", &[]).await.unwrap();
    assert_eq!(client.refusal("sessions.list", json!({})).await.0, "AUTH_REQUIRED");
    client.send("not json").await;
    assert_eq!(client.frame().await["error"]["code"], "INVALID_REQUEST");
    assert_eq!(client.refusal("connect", json!({ "authToken": "wrong" })).await.0, "UNAUTHORIZED");
    client.payload("connect", json!({ "authToken": house.token })).await;
    assert_eq!(client.refusal("connect", json!({})).await.0, "INVALID_REQUEST");
    assert_eq!(client.refusal("foo.bar", json!({})).await.0, "METHOD_NOT_FOUND");
    let elsewhere = json!({ "tenantId": "other" });
    assert_eq!(client.refusal("sessions.list", elsewhere).await.0, "TENANT_SCOPE_MISMATCH");
    client.send(r#"{"type":"event"}"#).await;
    assert_eq!(client.frame().await["error"]["code"], "INVALID_REQUEST");
    client.payload("sessions.list", json!({ "unknown": 1 })).await;
}

#[tokio::test]
async fn a_run_is_accepted_first_told_in_order_and_ends_once() {
    let house = House::open().await;
    let mut client = foal(&house).await;
    let session = client.payload("sessions.create", json!({ "title": "Trip", "idempotencyKey": "s1" })).await;
    let again = client.payload("sessions.create", json!({ "title": "Trip", "idempotencyKey": "s1" })).await;
    assert_eq!(session["session"]["id"], again["session"]["id"]);
    let id = &session["session"]["id"];
    let run = json!({ "sessionId": id, "input": "hello foal", "idempotencyKey": "r1" });
    let asked = client.ask("agent.run", run.clone()).await;
    let first = client.frame().await;
    assert_eq!(
        (&first["type"], &first["id"], &first["payload"]["status"]),
        (&json!("res"), &json!(asked), &json!("accepted"))
    );
    let told = client.until(named("session.updated")).await;
    let names: Vec<&str> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names[0], "agent.accepted");
    assert_eq!(names[names.len() - 2], "agent.completed");
    assert!(names[1..names.len() - 2].iter().all(|name| *name == "agent.delta"), "{names:?}");
    let seqs: Vec<u64> = told.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let again: Value = client.payload("agent.run", run).await;
    assert_eq!(again["runId"], first["payload"]["runId"]);
    let other = json!({ "sessionId": id, "input": "other", "idempotencyKey": "r1" });
    assert_eq!(client.refusal("agent.run", other).await.0, "IDEMPOTENCY_CONFLICT");
    assert_eq!(
        client.refusal("agent.run", json!({ "sessionId": id, "input": "x" })).await.0,
        "INVALID_REQUEST"
    );
    let history = client.payload("sessions.history", json!({ "sessionId": id })).await;
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
    let audit = client.payload("audit.query", json!({ "limit": 5 })).await;
    assert!(!audit["items"].as_array().unwrap().is_empty());
    let metrics = client.payload("metrics.summary", json!({})).await;
    assert_eq!(metrics["metrics"]["runsCompleted"], 1);
    client.payload("budget.get", json!({})).await;
}

#[tokio::test]
async fn an_abort_ends_a_run_and_a_second_one_says_so() {
    let house = House::held().await;
    let mut client = foal(&house).await;
    let run = json!({ "sessionId": "work", "input": "never ends", "idempotencyKey": "r1" });
    let accepted = client.payload("agent.run", run).await;
    client.event(named("agent.accepted")).await;
    let abort = |key: &str| json!({ "runId": accepted["runId"], "idempotencyKey": key });
    assert_eq!(client.payload("agent.abort", abort("a")).await["status"], "aborted");
    assert_eq!(client.event(named("agent.failed")).await["payload"]["code"], "ABORTED");
    assert_eq!(client.payload("agent.abort", abort("b")).await["status"], "already_finished");
    let unknown = json!({ "runId": "nobody", "idempotencyKey": "c" });
    assert_eq!(client.refusal("agent.abort", unknown).await.0, "INVALID_REQUEST");
    let mode = json!({ "sessionId": "work", "runtimeMode": "local", "idempotencyKey": "m" });
    assert_eq!(client.payload("runtime.setMode", mode).await["status"], "applied");
    assert_eq!(client.event(named("runtime.mode_changed")).await["payload"]["status"], "applied");
}

#[tokio::test]
async fn a_policy_is_what_the_configuration_says_and_a_change_is_written_there_and_on_record() {
    let house = House::open().await;
    let mut client = foal(&house).await;
    let policy = client.payload("policy.get", json!({})).await["policy"].clone();
    assert_eq!(
        (&policy["scopeKey"], &policy["toolDefault"], &policy["highRisk"], &policy["restartRequired"]),
        (&json!("default"), &json!("deny"), &json!("approval-required"), &json!(false))
    );
    let patch = json!({ "highRisk": "deny", "tools": { "web_fetch": "approval-required", "exec": "deny" } });
    let changed =
        client.payload("policy.update", json!({ "idempotencyKey": "p1", "patch": patch })).await["policy"]
            .clone();
    assert_eq!((&changed["highRisk"], &changed["restartRequired"]), (&json!("deny"), &json!(true)));
    assert_eq!(changed["tools"], json!({ "exec": "deny", "web_fetch": "approval-required" }));
    assert!(changed["version"].as_u64() > policy["version"].as_u64());
    assert_eq!(client.payload("policy.get", json!({ "scopeKey": "default" })).await["policy"], changed);
    let file = std::fs::read_to_string(house.engine.home().config_file()).unwrap();
    assert!(file.contains("highRisk") && file.contains("web_fetch"), "{file}");
    let gone =
        json!({ "idempotencyKey": "p2", "patch": { "tools": { "exec": null }, "toolDefault": "allow" } });
    let changed = client.payload("policy.update", gone).await["policy"].clone();
    assert_eq!(
        (&changed["tools"], &changed["toolDefault"]),
        (&json!({ "web_fetch": "approval-required" }), &json!("allow"))
    );
    for (patch, code) in [
        (json!({ "highRisk": "maybe" }), "INVALID_REQUEST"),
        (json!({ "surprise": true }), "INVALID_REQUEST"),
        (json!({ "bashMode": "host" }), "INVALID_REQUEST"),
        (json!({}), "INVALID_REQUEST"),
    ] {
        let wrong = json!({ "idempotencyKey": patch.to_string(), "patch": patch });
        assert_eq!(client.refusal("policy.update", wrong).await.0, code, "{patch}");
    }
    assert_eq!(client.refusal("policy.get", json!({ "scopeKey": "other" })).await.0, "INVALID_REQUEST");
    let audit = client.payload("audit.query", json!({ "action": "policy.update" })).await;
    assert_eq!(audit["items"].as_array().unwrap().len(), 2, "{audit}");
    assert_eq!(audit["items"][1]["metadata"]["patch"]["tools"]["highRisk"], "deny");
}

#[tokio::test]
async fn a_budget_is_changed_for_its_scope_and_only_within_ones_own() {
    let house = House::open().await;
    let mut client = foal(&house).await;
    let agent = "agent:local:default:main";
    let patch = json!({ "tokenDailyLimit": 5000, "costMonthlyUsdLimit": 2.5, "hardLimit": false });
    let update = json!({ "idempotencyKey": "b1", "scopeKey": agent, "patch": patch });
    let changed = client.payload("budget.update", update).await;
    let policy = &changed["policy"];
    assert_eq!(
        (&policy["tokenDailyLimit"], &policy["costMonthlyUsdLimit"], &policy["hardLimit"]),
        (&json!(5000), &json!(2.5), &json!(false))
    );
    assert_eq!(changed["usage"]["tokensUsedDaily"], 0);
    let read = client.payload("budget.get", json!({ "scopeKey": agent })).await;
    assert_eq!(read["policy"], *policy);
    assert_eq!(client.payload("budget.get", json!({})).await["policy"]["tokenDailyLimit"], Value::Null);
    let free = json!({ "idempotencyKey": "b2", "scopeKey": agent, "patch": { "tokenDailyLimit": null } });
    assert_eq!(client.payload("budget.update", free).await["policy"]["tokenDailyLimit"], Value::Null);
    for (scope, patch, code) in [
        ("tenant:other", json!({ "hardLimit": true }), "TENANT_SCOPE_MISMATCH"),
        ("workspace:local:other", json!({ "hardLimit": true }), "WORKSPACE_SCOPE_MISMATCH"),
        ("planet:earth", json!({ "hardLimit": true }), "INVALID_REQUEST"),
        (agent, json!({ "tokenDailyLimit": -1 }), "INVALID_REQUEST"),
        (agent, json!({ "colour": "red" }), "INVALID_REQUEST"),
        (agent, json!({}), "INVALID_REQUEST"),
    ] {
        let wrong = json!({ "idempotencyKey": format!("{scope}{patch}"), "scopeKey": scope, "patch": patch });
        assert_eq!(client.refusal("budget.update", wrong).await.0, code, "{scope} {patch}");
    }
    let audit = client.payload("audit.query", json!({ "action": "budget.update" })).await;
    assert_eq!(audit["items"].as_array().unwrap().len(), 2, "what is refused changes nothing");
}
