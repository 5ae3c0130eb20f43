//! The management side: configuration, runs, the audit trail, one tool, the document.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::house::House;

async fn get(house: &House, path: &str) -> Value {
    let reply = house.owner("GET", path).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.json());
    reply.json()
}

async fn patch(house: &House, base: &Value, patch: &Value) -> (u16, Value) {
    let body = json!({"baseHash": base, "patch": patch});
    let reply = house.owner("PATCH", "/api/v1/config").json(&body).send().await;
    (reply.status.as_u16(), reply.json())
}

#[tokio::test]
async fn the_configuration_is_changed_against_what_was_read_and_shows_no_secret() {
    let house =
        House::configured(&json!({"hooks": {"token": "very-secret"}, "ui": {"language": "en"}})).await;
    let before = get(&house, "/api/v1/config").await;
    assert_eq!(before["stale"], false);
    assert!(!before.to_string().contains("very-secret"));
    assert_eq!(before["effective"]["gateway"]["port"], 18_789);
    let wanted = json!({"gateway": {"port": 7777}, "ui": {"language": null}});
    let (status, changed) = patch(&house, &before["hash"], &wanted).await;
    assert_eq!((status, &changed["needsRestart"]), (200, &json!(true)), "{changed}");
    let after = get(&house, "/api/v1/config").await;
    assert_eq!(after["config"]["gateway"], json!({"port": 7777}));
    assert_eq!((&after["stale"], &after["hash"]), (&json!(true), &changed["hash"]));
    assert_eq!(after["config"].get("ui"), None);
    let (status, late) = patch(&house, &before["hash"], &wanted).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("CONFIG_CONFLICT")));
    let (status, wrong) =
        patch(&house, &after["hash"], &json!({"gateway": {"port": "x"}, "ui": {"language": "zh-CN"}})).await;
    assert_eq!(status, 400, "{wrong}");
    assert_eq!(wrong["error"]["details"]["issues"][0]["path"], "gateway.port");
    assert_eq!(get(&house, "/api/v1/config").await["hash"], after["hash"], "all of it or nothing");
    assert_eq!(get(&house, "/api/v1/config/schema").await["type"], "object");
}

#[tokio::test]
async fn runs_and_the_audit_trail_can_be_read() {
    let house = House::open().await;
    let body = json!({"model": "tidegate", "user": "ann", "messages": [{"role": "user", "content": "hi"}]});
    let asked = house.owner("POST", "/v1/chat/completions").json(&body).send().await.json();
    let list = get(&house, "/api/v1/runs?state=completed&session=openai-user%3Aann&limit=5").await;
    let run = &list["runs"][0];
    assert_eq!(asked["id"], format!("chatcmpl-{}", run["runId"].as_str().unwrap()));
    let one = get(&house, &format!("/api/v1/runs/{}", run["runId"].as_str().unwrap())).await;
    assert_eq!(one["answer"], asked["choices"][0]["message"]["content"]);
    let audit = get(&house, "/api/v1/audit?limit=10").await;
    assert!(!audit["audit"].as_array().unwrap().is_empty());
    for path in ["/api/v1/runs?limit=0", "/api/v1/runs?state=tired", "/api/v1/audit?limit=x"] {
        assert_eq!(house.owner("GET", path).send().await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(house.owner("GET", "/api/v1/runs/what").send().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn health_answers_under_every_name_and_the_page_has_its_other_address() {
    let house = House::open().await;
    for path in ["/healthz", "/livez", "/readyz", "/health"] {
        let reply = house.call("GET", path).send().await;
        assert_eq!((reply.status, &reply.json()["ok"]), (StatusCode::OK, &json!(true)), "{path}");
    }
    let moved = house.call("GET", "/control-ui").send().await;
    assert_eq!((moved.status, moved.header("location")), (StatusCode::SEE_OTHER, "/"));
}

#[tokio::test]
async fn a_tool_that_is_not_there_or_not_named_is_told() {
    let house = House::open().await;
    let invoke = async |body: Value| house.owner("POST", "/tools/invoke").json(&body).send().await;
    let missing = invoke(json!({"tool": "nothing"})).await;
    assert_eq!(
        (missing.status, &missing.json()["error"]["type"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    assert_eq!(invoke(json!({"args": {}})).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(invoke(json!({"tool": "x", "dryRun": true})).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_document_is_served_as_it_is_generated() {
    let house = House::open().await;
    assert_eq!(get(&house, "/api/v1/openapi.json").await, tidegate_gateway::openapi());
}
