//! Our own dialect: who may enter, what one hears first, and calling methods.

use serde_json::{Value, json};
use tidegate_protocol::api::Hello;
use tokio_tungstenite::tungstenite::Error;

use super::client::{Client, Read, named};
use crate::house::House;

pub(super) const PATH: &str = "/api/v1/socket";

/// A client that has entered with the token, and its hello.
pub(super) async fn native(house: &House) -> (Client, Hello) {
    let mut client = Client::open(house, PATH, &[("authorization", &house.bearer())]).await.unwrap();
    let hello = client.frame().await;
    assert_eq!((&hello["type"], &hello["event"]), (&json!("event"), &json!("hello")), "it comes first");
    assert_eq!(hello.get("seq"), None, "it is no broadcast");
    (client, serde_json::from_value(hello["payload"].clone()).unwrap())
}

/// The code of a call that is refused.
async fn refused(client: &mut Client, method: &str, params: Value) -> String {
    client.refusal(method, params).await.0
}

#[tokio::test]
async fn the_first_frame_says_what_is_spoken_here() {
    let house = House::open().await;
    let (_client, hello) = native(&house).await;
    assert_eq!(hello.protocol, 1);
    assert_eq!((hello.server.name.as_str(), hello.me.agent.as_str()), ("tidegate", "main"));
    assert_eq!(hello.server.version, hello.me.version);
    assert!(hello.server.conn_id.starts_with(&hello.server.boot_id));
    assert_eq!((hello.policy.tick_ms, hello.policy.max_requests), (15_000, 64));
    assert_eq!((hello.policy.max_frame_bytes, hello.policy.max_queued_bytes), (8_388_608, 1_572_864));
    for method in ["me.get", "message.send", "session.subscribe", "events.resume", "approval.decide"] {
        assert!(hello.methods.iter().any(|known| known == method), "{method}");
    }
    for event in ["tick", "session.delta", "approval.asked", "missed"] {
        assert!(hello.events.iter().any(|known| known == event), "{event}");
    }
}

#[tokio::test]
async fn only_who_may_use_the_interface_enters_and_a_foreign_page_never_does() {
    let house = House::open().await;
    let (own, cookie) = (format!("http://{}", house.address()), house.cookie().await);
    let bearer = house.bearer();
    for (headers, status) in [
        (vec![], Some(401)),
        (vec![("authorization", "Bearer wrong")], Some(401)),
        (vec![("cookie", cookie.as_str())], Some(403)),
        (vec![("cookie", cookie.as_str()), ("origin", "https://evil.example")], Some(403)),
        (vec![("authorization", bearer.as_str()), ("origin", "https://evil.example")], Some(403)),
        (vec![("origin", own.as_str())], Some(401)),
        (vec![("cookie", "tidegate=made-up"), ("origin", own.as_str())], Some(401)),
        (vec![("cookie", cookie.as_str()), ("origin", own.as_str())], None),
        (vec![("authorization", bearer.as_str())], None),
    ] {
        let opened = Client::open(&house, PATH, &headers).await;
        match (opened, status) {
            (Ok(mut client), None) => assert_eq!(client.frame().await["event"], "hello"),
            (Err(Error::Http(answer)), Some(status)) => {
                assert_eq!(answer.status().as_u16(), status, "{headers:?}");
                let body: Value =
                    serde_json::from_slice(answer.body().as_deref().unwrap_or_default()).unwrap();
                assert!(body["error"]["code"].is_string(), "the usual body: {body}");
            }
            (opened, status) => panic!("{headers:?}: {status:?}, {:?}", opened.err()),
        }
    }
    let plain = house.owner("GET", PATH).send().await;
    assert_eq!((plain.status.as_u16(), &plain.json()["error"]["code"]), (426, &json!("BAD_REQUEST")));
}

#[tokio::test]
async fn methods_answer_what_the_addresses_of_the_same_purpose_do() {
    let house = House::open().await;
    let (mut client, hello) = native(&house).await;
    let say = |key: &str| json!({ "session": "main", "text": "what is the tide doing?", "key": key });
    let sent = client.payload("message.send", say("k1")).await;
    assert_eq!(sent["replayed"], false);
    client.event(|event| event["event"] == "run.changed" && is_over(&event["payload"]["run"])).await;
    let again = client.payload("message.send", say("k1")).await;
    assert_eq!((&again["runId"], &again["replayed"]), (&sent["runId"], &json!(true)));
    let mut other = say("k1");
    other["text"] = json!("something else");
    assert_eq!(refused(&mut client, "message.send", other).await, "IDEMPOTENCY_CONFLICT");

    for (method, params, path) in [
        ("me.get", json!({}), "/api/v1/me".to_owned()),
        ("sessions.list", json!({}), "/api/v1/sessions".to_owned()),
        ("run.list", json!({}), "/api/v1/runs".to_owned()),
        ("run.get", json!({ "runId": sent["runId"] }), format!("/api/v1/runs/{}", text(&sent["runId"]))),
        ("approval.list", json!({}), "/api/v1/approvals".to_owned()),
        ("audit.list", json!({}), "/api/v1/audit".to_owned()),
        ("config.get", json!({}), "/api/v1/config".to_owned()),
    ] {
        let over_http = house.owner("GET", &path).send().await.json();
        assert_eq!(client.payload(method, params).await, over_http, "{method}");
    }
    assert_eq!(client.payload("status.get", json!({})).await["version"], hello.server.version.as_str());
    assert_eq!(client.payload("health.get", json!({})).await["ready"], true);
    let shown = client.payload("session.get", json!({ "session": "main" })).await;
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2);
    let models = client.payload("models.list", json!({})).await;
    assert!(
        !models["models"].as_array().unwrap().is_empty() && !models["chain"].as_array().unwrap().is_empty()
    );
    for (method, params, field) in [
        ("usage.get", json!({ "days": 2 }), "days"),
        ("tools.list", json!({}), "tools"),
        ("outbox.list", json!({ "state": "dead" }), "parts"),
    ] {
        assert!(client.payload(method, params).await[field].is_array(), "{method}");
    }
}

fn is_over(run: &Value) -> bool {
    run["state"] == "completed"
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_conversation_is_named_searched_for_begun_anew_and_taken_away() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    for (session, key) in [("alpha", "a"), ("beta", "b")] {
        let sent =
            client.payload("message.send", json!({ "session": session, "text": session, "key": key })).await;
        client
            .event(|event| {
                event["payload"]["run"]["runId"] == sent["runId"] && is_over(&event["payload"]["run"])
            })
            .await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["sessions"].as_array().unwrap().iter().map(|item| text(&item["name"])).collect()
    };
    let renamed = json!({ "session": "alpha", "title": "High water" });
    client.payload("session.rename", renamed).await;
    let changed = |reason: &'static str| {
        move |event: &Value| event["event"] == "sessions.changed" && event["payload"]["reason"] == reason
    };
    assert_eq!(client.event(changed("renamed")).await["payload"]["session"], "alpha");
    let found = client.payload("sessions.list", json!({ "query": "HIGH w" })).await;
    assert_eq!(names(&found), ["alpha"]);
    let newest = client.payload("sessions.list", json!({ "limit": 1 })).await;
    assert_eq!((names(&newest).len(), &newest["more"]), (1, &json!(true)));
    let before = newest["sessions"][0]["updatedAt"].clone();
    let older = client.payload("sessions.list", json!({ "before": before })).await;
    assert!(!names(&older).contains(&names(&newest)[0]), "{older}");

    let alpha = json!({ "session": "alpha" });
    client.payload("session.reset", alpha.clone()).await;
    assert_eq!(client.payload("session.get", alpha.clone()).await["messages"], json!([]));
    let nothing = client.payload("session.compact", json!({ "session": "never" })).await;
    assert_eq!(nothing["compacted"], false);
    let removed = client.payload("session.delete", json!({ "session": "beta" })).await;
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1);
    client.event(changed("deleted")).await;
    assert!(!names(&client.payload("sessions.list", json!({})).await).contains(&"beta".to_owned()));
}

#[tokio::test]
async fn a_refusal_has_the_code_of_the_interface_and_nothing_unknown_is_ignored() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let run = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (method, params, code) in [
        ("health", json!({}), "NOT_FOUND"),
        ("connect", json!({}), "NOT_FOUND"),
        ("me.get", json!({ "zzz": 1 }), "BAD_REQUEST"),
        ("session.get", json!({}), "BAD_REQUEST"),
        ("sessions.list", json!({ "limit": 0 }), "BAD_REQUEST"),
        ("run.get", json!({ "runId": run }), "NOT_FOUND"),
        ("run.abort", json!({ "runId": "nonsense" }), "BAD_REQUEST"),
        ("run.list", json!({ "state": "sleeping" }), "BAD_REQUEST"),
        ("approval.decide", json!({ "id": run, "decision": "deny" }), "NOT_FOUND"),
        ("outbox.decide", json!({ "id": run, "decision": "retry" }), "NOT_FOUND"),
        ("outbox.list", json!({ "state": "lost" }), "BAD_REQUEST"),
        ("message.send", json!({ "session": "main", "text": " ", "key": "k" }), "BAD_REQUEST"),
        ("session.rename", json!({ "session": "nobody", "title": "x" }), "NOT_FOUND"),
        ("session.unsubscribe", json!({ "sub": "s9" }), "NOT_FOUND"),
        ("session.subscribe", json!({ "session": "main", "agent": "nobody" }), "NOT_FOUND"),
    ] {
        let answer = client.call(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    client.send(r#"{"type":"req","id":"7","method":"me.get","extra":true}"#).await;
    assert_eq!(client.answer("7").await["error"]["code"], "BAD_REQUEST");
    client.send("nonsense").await;
    assert_eq!(client.answer("invalid").await["error"]["code"], "BAD_REQUEST");
}

#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_connection_with_its_own_code() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let long = "x".repeat(9 << 20);
    client.ask("message.send", json!({ "session": "main", "text": long, "key": "k" })).await;
    assert_eq!(client.read().await, Read::Closed(1009, "message too big".to_owned()));
}

#[tokio::test]
async fn a_client_hears_a_sign_of_life_without_a_number() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let tick = client.event(named("tick")).await;
    assert!(tick["payload"]["at"].is_i64() && tick.get("seq").is_none(), "{tick}");
}

#[tokio::test]
async fn a_stopping_gateway_says_so_and_closes_with_1012() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    house.port.stop_listening();
    client.event(named("shutdown")).await;
    assert_eq!(client.read().await, Read::Closed(1012, "service restart".to_owned()));
}
