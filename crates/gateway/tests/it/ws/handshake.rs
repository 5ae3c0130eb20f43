//! Who may enter, and what everybody else is told.

use serde_json::{Value, json};
use tidegate_runtime::Clock as _;

use super::client::{Client, Device, Read, entered, operator, program};
use crate::house::House;

/// Says something first, and reads what is answered until the end.
async fn turned_away(house: &House, first: String) -> (Option<Value>, u16, String) {
    let mut client = Client::open(house, "/", &[]).await.unwrap();
    client.frame().await;
    client.send(first).await;
    let mut answer = None;
    loop {
        match client.read().await {
            Read::Frame(frame) => answer = Some(frame["error"].clone()),
            Read::Closed(code, reason) => return (answer, code, reason),
        }
    }
}

fn connect(params: &Value) -> String {
    json!({ "type": "req", "id": "c", "method": "connect", "params": params }).to_string()
}

fn with(mut params: Value, name: &str, value: Value) -> Value {
    *params.pointer_mut(name).unwrap_or_else(|| panic!("{name}")) = value;
    params
}

#[tokio::test]
async fn everybody_who_may_not_enter_is_told_why_and_closed() {
    let house = House::open().await;
    let good = program(&house, &["operator.admin"]);
    let without = |name: &str| {
        let mut params = good.clone();
        params.as_object_mut().unwrap().remove(name);
        params
    };
    let page = with(good.clone(), "/client/id", json!("openclaw-control-ui"));
    let now = house.clock.now_ms();
    let device = Device::new(7);
    let signed =
        |at: i64, nonce: &str| device.sign(good.clone(), if nonce.is_empty() { 1 } else { 2 }, nonce, at);
    let old = now - 700_000;
    for (first, code, message, close) in [
        ("not json".to_owned(), "", "invalid request frame", 1008),
        (r#"{"type":"event"}"#.to_owned(), "", "invalid request frame", 1008),
        (
            r#"{"type":"req","id":"1","method":"health"}"#.to_owned(),
            "INVALID_REQUEST",
            "invalid handshake: first request must be connect",
            1008,
        ),
        (
            connect(&json!({})),
            "INVALID_REQUEST",
            "invalid connect params: must have required property 'minProtocol'; must have required property 'maxProtocol'; must have required property 'client'",
            1008,
        ),
        (
            connect(&with(good.clone(), "/client/id", json!("nobody"))),
            "INVALID_REQUEST",
            "invalid connect params: at /client/id: must be equal to constant; at /client/id: must match a schema in anyOf",
            1008,
        ),
        (
            connect(&with(good.clone(), "/minProtocol", json!(5))),
            "INVALID_REQUEST",
            "protocol mismatch",
            1002,
        ),
        (
            connect(&with(good.clone(), "/maxProtocol", json!(2))),
            "INVALID_REQUEST",
            "protocol mismatch",
            1002,
        ),
        (connect(&with(good.clone(), "/role", json!("king"))), "INVALID_REQUEST", "invalid role", 1008),
        (connect(&page), "INVALID_REQUEST", "origin missing or invalid", 1008),
        (connect(&without("auth")), "NOT_PAIRED", "device identity required", 1008),
        (
            connect(&with(good.clone(), "/auth/token", json!("wrong"))),
            "INVALID_REQUEST",
            "unauthorized: gateway token mismatch (it is in credentials/local-token of the home)",
            1008,
        ),
        (
            connect(&with(signed(now, ""), "/device/id", json!("other"))),
            "INVALID_REQUEST",
            "device identity mismatch",
            1008,
        ),
        (
            connect(&with(signed(now, ""), "/device/publicKey", json!("AA"))),
            "INVALID_REQUEST",
            "device public key invalid",
            1008,
        ),
        (connect(&signed(old, "")), "INVALID_REQUEST", "device signature expired", 1008),
        (connect(&signed(now, "made-up")), "INVALID_REQUEST", "device nonce mismatch", 1008),
        (
            connect(&with(signed(now, ""), "/client/mode", json!("cli"))),
            "INVALID_REQUEST",
            "device signature invalid",
            1008,
        ),
    ] {
        let (error, closed, reason) = turned_away(&house, first.clone()).await;
        let error = error.unwrap_or_default();
        assert_eq!((error["code"].as_str().unwrap_or_default(), closed), (code, close), "{first}");
        if code.is_empty() {
            assert_eq!(reason, message);
        } else {
            assert_eq!(error["message"], message, "{first}");
            assert!(message.starts_with(&reason) && reason.len() <= 120, "{reason}");
        }
    }
}

#[tokio::test]
async fn a_hello_has_everything_that_clients_need() {
    let house = House::open().await;
    let (mut client, hello) = entered(&house, program(&house, &["operator.read"])).await;
    for path in [
        "/server/version",
        "/server/connId",
        "/features/methods/0",
        "/features/events/0",
        "/snapshot/presence/0",
        "/snapshot/health/ok",
        "/snapshot/stateVersion/presence",
        "/snapshot/stateVersion/health",
        "/snapshot/uptimeMs",
        "/snapshot/sessionDefaults/mainSessionKey",
        "/policy/maxPayload",
        "/policy/maxBufferedBytes",
        "/policy/tickIntervalMs",
    ] {
        assert!(hello.pointer(path).is_some(), "{path}");
    }
    assert_eq!((&hello["type"], &hello["protocol"]), (&json!("hello-ok"), &json!(4)));
    assert_eq!(hello["auth"], json!({ "role": "operator", "scopes": ["operator.read"] }));
    assert_eq!(hello["snapshot"]["sessionDefaults"]["mainSessionKey"], "agent:main:main");

    let older = json!({ "maxProtocol": 3 });
    let mut params = program(&house, &["operator.admin"]);
    params["maxProtocol"] = older["maxProtocol"].clone();
    assert_eq!(entered(&house, params).await.1["protocol"], 3);

    // What a reader may not do, and what nobody can.
    let refused = |message: &str| ("INVALID_REQUEST".to_owned(), message.to_owned());
    assert_eq!(client.refusal("config.get", json!({})).await, refused("missing scope: operator.admin"));
    assert_eq!(client.refusal("node.event", json!({})).await, refused("unauthorized role: operator"));
    assert_eq!(client.refusal("no.such", json!({})).await, refused("unknown method: no.such"));
    assert_eq!(
        client.refusal("connect", json!({})).await,
        refused("connect is only valid as the first request")
    );
    // A frame that is none costs nobody the connection.
    client.send(r#"{"type":"req","id":"","method":"health"}"#).await;
    let answer = client.frame().await;
    assert_eq!(answer["id"], "invalid");
    assert_eq!(
        answer["error"]["message"],
        "invalid request frame: at /id: must NOT have fewer than 1 characters"
    );
    assert_eq!(client.payload("health", json!({})).await["ok"], true);
}

#[tokio::test]
async fn a_device_at_this_machine_is_paired_and_its_token_lets_it_in_again() {
    let house = House::open().await;
    let device = Device::new(9);
    let params = || {
        let mut params = program(&house, &["operator.read", "operator.write"]);
        params["client"]["deviceFamily"] = json!("Linux");
        params
    };
    let mut tokens = Vec::new();
    for form in [1, 2, 3] {
        let mut client = Client::open(&house, "/", &[]).await.unwrap();
        let challenge = client.frame().await;
        let nonce = challenge["payload"]["nonce"].as_str().unwrap().to_owned();
        let signed = device.sign(params(), form, &nonce, house.clock.now_ms());
        let hello = client.payload("connect", signed).await;
        tokens.push(hello["auth"]["deviceToken"].as_str().unwrap().to_owned());
    }
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    // The device's own token in place of the house's.
    let enter = |token: String, scopes: &'static [&'static str]| {
        let mut params = program(&house, scopes);
        params["auth"]["token"] = json!(token);
        let signed = device.sign(params, 1, "", house.clock.now_ms());
        turned_away_or_in(&house, signed)
    };
    assert_eq!(enter(tokens[0].clone(), &["operator.read"]).await, None);
    let more = enter(tokens[0].clone(), &["operator.admin"]).await.unwrap();
    assert!(more.starts_with("unauthorized: "), "{more}");
    let mut admin = operator(&house).await;
    let list = admin.payload("device.pair.list", json!({})).await;
    assert_eq!(list["paired"][0]["deviceId"], device.id());
    assert!(!list.to_string().contains(&tokens[0]));
    let revoke = json!({ "deviceId": device.id(), "role": "operator" });
    admin.payload("device.token.revoke", revoke).await;
    assert!(enter(tokens[0].clone(), &["operator.read"]).await.is_some());
}

/// `None` when the client entered, else what it was told.
async fn turned_away_or_in(house: &House, params: Value) -> Option<String> {
    let mut client = Client::open(house, "/", &[]).await.unwrap();
    client.frame().await;
    let answer = client.call("connect", params).await;
    answer["error"]["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_device_behind_a_proxy_waits_until_somebody_approves_it() {
    let house = House::open().await;
    let device = Device::new(3);
    let mut admin = operator(&house).await;
    let knock = async || {
        let mut client = Client::open(&house, "/", &[("x-forwarded-for", "10.0.0.9")]).await.unwrap();
        let challenge = client.frame().await;
        let nonce = challenge["payload"]["nonce"].as_str().unwrap().to_owned();
        let params = device.sign(program(&house, &["operator.read"]), 2, &nonce, house.clock.now_ms());
        client.call("connect", params).await
    };
    let refused = knock().await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["message"]),
        (&json!("NOT_PAIRED"), &json!("pairing required"))
    );
    let asked = admin.event(super::client::named("device.pair.requested")).await;
    let request = refused["error"]["details"]["requestId"].clone();
    assert_eq!(asked["payload"]["requestId"], request);
    admin.payload("device.pair.approve", json!({ "requestId": request })).await;
    assert_eq!(knock().await["ok"], true);
    let (_, message) = admin.refusal("device.pair.approve", json!({ "requestId": request })).await;
    assert_eq!(message, "unknown requestId");
}

#[tokio::test]
async fn a_page_of_another_site_gets_no_socket_and_our_own_does() {
    let house = House::open().await;
    let foreign = Client::open(&house, "/", &[("origin", "http://evil.example")]).await;
    assert!(foreign.is_err());
    let own = format!("http://{}", house.address());
    let mut client = Client::open(&house, "/chat/main", &[("origin", own.as_str())]).await.unwrap();
    let challenge = client.frame().await;
    let mut params = program(&house, &["operator.admin"]);
    params["client"]["id"] = json!("openclaw-control-ui");
    params["client"]["mode"] = json!("webchat");
    let nonce = challenge["payload"]["nonce"].as_str().unwrap();
    let signed = Device::new(1).sign(params, 3, nonce, house.clock.now_ms());
    assert_eq!(client.call("connect", signed).await["ok"], true);
}

#[tokio::test]
async fn a_shutdown_is_told_and_the_socket_closes_for_a_restart() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    house.port.stop_listening();
    let told = client.event(super::client::named("shutdown")).await;
    assert_eq!(told["payload"]["reason"], "gateway stopping");
    assert_eq!(client.read().await, Read::Closed(1012, "service restart".into()));
    tokio::time::timeout(crate::house::LONG, house.port.drained()).await.expect("nothing is left");
}
