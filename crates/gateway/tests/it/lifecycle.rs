//! Beginning to listen, and ending.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use tidegate_engine::Drain;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::AskEvent;
use tidegate_testkit::client::ClientError;

use crate::ask::{ask, said};
use crate::house::{House, LONG};
use crate::wire::EventReader;

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_the_way_to_choose_another() {
    let house = House::open().await;
    let error = house.gateway.serve(house.address()).await.err().unwrap();
    assert_eq!(error.body().code, ErrorCode::PortInUse);
    let message = error.to_string();
    for part in [house.address().to_string().as_str(), "--port", "gateway.port"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn health_is_open_and_readiness_says_what_is_wrong() {
    let house = House::open().await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = house.call("GET", path).send().await;
        assert_eq!((reply.status, &reply.json()["ok"]), (StatusCode::OK, &json!(true)));
    }
    house.engine.stop_accepting();
    assert_eq!(house.call("GET", "/healthz").send().await.status, StatusCode::OK);
    let ready = house.call("GET", "/readyz").send().await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.json(), json!({"ok": false, "problems": ["shutting down"]}));
}

#[tokio::test]
async fn while_it_closes_nothing_new_is_taken_and_callers_know_to_come_back() {
    let house = House::open().await;
    house.engine.stop_accepting();
    let message = json!({"text": "hi", "key": "k"});
    let reply = house.owner("POST", "/api/v1/sessions/main/messages").json(&message).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "CLOSING"));
    assert_eq!(reply.header("retry-after"), "1");
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    let reply = house.owner("POST", "/v1/chat/completions").json(&chat).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "CLOSING"));
    let error = house.client().ask(&ask("hi", "k"), LONG).await.unwrap_err();
    assert!(matches!(error, ClientError::Closing { .. }), "{error:?}");
}

#[tokio::test]
async fn a_listener_that_stops_finishes_what_it_answers_and_refuses_the_rest() {
    let house = House::held().await;
    house.models.let_through(1);
    let (_, mut local) = house.client().ask(&ask("hi", "k1"), LONG).await.unwrap();
    assert!(matches!(said(&mut local).await, Some(AskEvent::Delta { .. })));
    let mut feed = EventReader::new(house.owner("GET", "/api/v1/sessions/main/events").open().await);
    feed.expect("snapshot").await;
    for server in [&house.port, &house.control] {
        server.stop_listening();
    }
    assert!(!house.socket.exists());
    assert!(matches!(house.client().status(LONG).await, Err(ClientError::Nobody { .. })));
    while feed.next().await.is_some() {}
    tokio::time::timeout(LONG, house.port.drained()).await.expect("the port has nothing left to say");
    assert!(matches!(house.remote().status(LONG).await, Err(ClientError::Nobody { .. })));
    let early = tokio::time::timeout(Duration::from_millis(50), house.control.drained()).await;
    assert!(early.is_err(), "an answer is under way");
    house.models.open();
    let mut last = None;
    while let Some(event) = local.next(LONG).await.unwrap() {
        last = Some(event);
    }
    assert!(matches!(last, Some(AskEvent::Answer(_))), "{last:?}");
    tokio::time::timeout(LONG, house.control.drained()).await.expect("nothing is left");
}

#[tokio::test]
async fn a_closed_gateway_lets_the_home_go() {
    let house = House::open().await;
    let home = house.engine.home().clone();
    let (_, mut stream) = house.client().ask(&ask("hi", "k"), LONG).await.unwrap();
    while stream.next(LONG).await.unwrap().is_some() {}
    house.engine.close(Drain::Everything).await;
    for server in [&house.port, &house.control] {
        server.stop_listening();
        tokio::time::timeout(LONG, server.drained()).await.expect("nothing is left");
    }
    let House { engine, gateway, port, control, _folder, .. } = house;
    drop((engine, gateway, port, control));
    home.lock(LONG, "next").await.expect("the home is free");
}

#[tokio::test]
async fn a_head_or_a_line_without_end_is_cut_off() {
    let house = House::open().await;
    let reply = house.call("GET", "/healthz").with("x-large", &"x".repeat(200_000)).open().await;
    assert_eq!(reply.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(house.call("GET", "/healthz").send().await.status, StatusCode::OK);
}

/// What is embedded depends on whether `web/dist` was there when the gateway was built.
#[tokio::test]
async fn the_page_is_served_with_its_assets_or_a_notice_says_how_to_build_it() {
    let house = House::open().await;
    let reply = house.call("GET", "/").send().await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"));
    let page = String::from_utf8(reply.body).unwrap();
    let Some((_, asset)) = page.split_once("\"/assets/") else {
        assert!(page.contains("make run"), "{page}");
        return;
    };
    let asset = format!("/assets/{}", asset.split('"').next().unwrap());
    let reply = house.call("GET", &asset).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{asset}");
    assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
    assert!(reply.header("content-type").starts_with("text/"), "{asset}");
    assert_eq!(house.call("POST", &asset).send().await.code(), "METHOD_NOT_ALLOWED");
}
