//! What a program cannot use up.

use std::time::Duration;

use tidegate_net::ProxyLimits;
use tidegate_testkit::web_server::{Page, WebServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PATIENCE, Scene, all, rules, server, status};

#[tokio::test]
async fn more_connections_than_the_limit_wait_for_their_turn() {
    let server = server().await;
    let place = format!("api.example:{}", server.address().port());
    let limits = ProxyLimits { connections: 1, ..ProxyLimits::default() };
    let scene = Scene::within(rules(server.address(), &["api.example"]), limits);
    let (first, head) = scene.connect_to(&place).await;
    assert_eq!(status(&head), 200);
    let url = format!("http://{place}/");
    let mut second = Box::pin(scene.get(&url, ""));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut second).await;
    assert!(early.is_err(), "the only seat is taken by the tunnel");
    drop(first);
    let answer = tokio::time::timeout(PATIENCE, second).await.expect("the seat is free");
    assert_eq!(status(&answer), 200);
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves_is_closed() {
    let server = server().await;
    let place = format!("api.example:{}", server.address().port());
    let limits = ProxyLimits { idle: Duration::from_millis(100), ..ProxyLimits::default() };
    let scene = Scene::within(rules(server.address(), &["api.example"]), limits);
    let (mut stream, _) = scene.connect_to(&place).await;
    assert_eq!(all(&mut stream).await, "");
}

#[tokio::test]
async fn heads_and_bodies_are_bounded() {
    let server = server().await;
    let url = format!("http://api.example:{}/", server.address().port());
    let limits = ProxyLimits { head: 16 << 10, body: 1000, ..ProxyLimits::default() };
    let scene = Scene::within(rules(server.address(), &["api.example"]), limits);
    let large = scene.get(&url, &format!("x-large: {}\r\n", "x".repeat(32 << 10))).await;
    assert_eq!(status(&large), 431, "{large}");
    for (length, expected) in [(1000, 200), (1001, 413)] {
        let body = "x".repeat(length);
        let answer = scene
            .say(&format!(
                "POST {url} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            ))
            .await;
        assert_eq!(status(&answer), expected, "{answer}");
    }
    assert_eq!(server.asked().len(), 1);
    assert_eq!(server.asked()[0].body.len(), 1000);
}

#[tokio::test]
async fn a_head_that_never_ends_and_a_host_that_never_answers_are_given_up() {
    let server = WebServer::of_pages([("/", Page::raw("HTTP/1.1 ").then_stall())]).await;
    let url = format!("http://api.example:{}/", server.address().port());
    let patience = Duration::from_millis(300);
    let limits = ProxyLimits { head_patience: patience, idle: patience, ..ProxyLimits::default() };
    let scene = Scene::within(rules(server.address(), &["api.example"]), limits);
    let mut slow = scene.connect().await;
    slow.write_all(b"GET http://api.exa").await.unwrap();
    all(&mut slow).await;
    let answer = scene.get(&url, "").await;
    assert_eq!(status(&answer), 504, "{answer}");
}

#[tokio::test]
async fn a_dropped_proxy_is_gone_with_its_socket_and_its_tunnels() {
    let server = server().await;
    let mut scene = Scene::new(rules(server.address(), &["api.example"]));
    let (mut stream, _) = scene.connect_to(&format!("api.example:{}", server.address().port())).await;
    drop(scene.proxy.take());
    assert!(!scene.path.exists());
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 1])).await.expect("the tunnel closes");
    assert!(matches!(read, Ok(0) | Err(_)));
}
