//! `http.request`, and the requests of configured tools.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_net::{Client, Egress, Headers, Method, Origin};
use tidegate_policy::{Subject, SubjectKind};
use tidegate_protocol::{Risk, ToolErrorCode};
use tidegate_testkit::web_server::{Page, WebServer};

use super::{client, fenced, prepared, shown};
use crate::tool::{Output, ToolFailure};
use crate::web::request::{HttpRequest, HttpTool, RequestArgs, request};

async fn send(tool: &HttpTool, args: Value) -> Result<Output, ToolFailure> {
    let args: RequestArgs = serde_json::from_value(args).unwrap();
    tool.send(args, &Egress::default()).await
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_written() {
    let answer =
        Page::with_headers(201, &[("content-type", "application/json"), ("x-made", "yes")], "{\"id\":7}");
    let server = WebServer::of_pages([("/things", answer)]).await;
    let tool = HttpTool::new(client(&[&server]));
    let output = send(
        &tool,
        json!({
            "method": "POST", "url": server.url("/things?a=1"), "headers": { "Content-Type": "application/json", "X-Api-Key": "k" },
            "body": "{\"name\":\"x\"}",
        }),
    );
    let output = output.await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(
        (asked.method.as_str(), asked.query("a"), asked.body.as_slice()),
        ("POST", Some("1"), &b"{\"name\":\"x\"}"[..])
    );
    assert_eq!(
        (asked.headers["content-type"].as_str(), asked.headers["x-api-key"].as_str()),
        ("application/json", "k")
    );
    assert!(shown(&output).starts_with("Status 201.\nFrom "));
    let inside = fenced(&output);
    assert!(inside.contains("x-made: yes\n") && inside.ends_with("\n\n{\"id\":7}"), "{inside}");
    let data = output.data.unwrap();
    assert_eq!(
        (&data["status"], &data["ok"], &data["headers"]["x-made"], &data["bytes"]),
        (&json!(201), &json!(true), &json!("yes"), &json!(8))
    );
}

#[tokio::test]
async fn a_body_that_is_not_text_is_not_shown() {
    let pages = [
        ("/bytes", Page::new(200, "application/octet-stream", [0_u8, 1, 2])),
        ("/latin", Page::new(200, "text/html; charset=iso-8859-1", b"<b>\xe9</b>")),
    ];
    let server = WebServer::of_pages(pages).await;
    let tool = HttpTool::new(client(&[&server]));
    let inside = fenced(&send(&tool, json!({ "url": server.url("/bytes") })).await.unwrap());
    assert!(
        inside.ends_with("(The body is not shown: it is application/octet-stream (3 bytes), not text.)"),
        "{inside}"
    );
    let inside = fenced(&send(&tool, json!({ "url": server.url("/latin") })).await.unwrap());
    assert!(inside.ends_with("\n\n<b>é</b>"), "{inside}");
}

#[tokio::test]
async fn a_body_ends_at_its_limit_and_a_call_at_its_time() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let pages =
        [("/flood", Page::raw(head).then_flood(&[b'x'; 4096])), ("/stall", Page::raw(head).then_stall())];
    let server = WebServer::of_pages(pages).await;
    let tool = HttpTool::new(client(&[&server]));
    let output = send(&tool, json!({ "url": server.url("/flood"), "maxBytes": 1000 })).await.unwrap();
    assert!(output.truncated && fenced(&output).ends_with(&"x".repeat(1000)));
    assert!(shown(&output).ends_with("(The body goes on: only its first 1000 bytes are shown.)"));
    let failure = send(&tool, json!({ "url": server.url("/stall"), "timeoutMs": 200 })).await.unwrap_err();
    assert_eq!(failure.details.unwrap()["timedOut"], true);
}

#[tokio::test]
async fn only_what_reads_follows_redirects() {
    let server = WebServer::of_pages([
        ("/", Page::redirect(307, "/end")),
        ("/end", Page::new(200, "text/plain", "end")),
    ])
    .await;
    let tool = HttpTool::new(client(&[&server]));
    for (method, status) in
        [("GET", 200), ("HEAD", 200), ("POST", 307), ("PUT", 307), ("PATCH", 307), ("DELETE", 307)]
    {
        let data =
            send(&tool, json!({ "method": method, "url": server.url("/") })).await.unwrap().data.unwrap();
        assert_eq!(data["status"], status, "{method}");
    }
    assert_eq!(server.asked().iter().filter(|asked| asked.path == "/end").count(), 2);
}

#[tokio::test]
async fn headers_that_are_not_a_requests_own_are_refused_all_at_once() {
    let tool = HttpTool::new(Client::default());
    for name in [
        "Host",
        "cookie",
        "Connection",
        "Transfer-Encoding",
        "content-length",
        "Proxy-Authorization",
        "Upgrade",
        "TE",
        "sec-fetch-site",
        "Accept-Encoding",
    ] {
        let failure = prepared(&tool, json!({ "url": "https://example.com/", "headers": { name: "x" } }))
            .await
            .unwrap_err();
        assert_eq!(
            (failure.code, failure.message),
            (ToolErrorCode::InvalidArgs, format!("the header {name} cannot be set"))
        );
    }
    let args = json!({ "url": "https://example.com/", "headers": { "a b": "x", "x-a": "1\r\nHost: evil", "X-A": "2" }, "body": "b" });
    let failure = prepared(&tool, args).await.unwrap_err();
    for part in
        ["\"a b\" is not the name", "x-a has a control character", "twice", "GET and HEAD have no body"]
    {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
}

#[tokio::test]
async fn a_call_is_prepared_with_what_it_would_send_and_keys_covered() {
    let tool = HttpTool::new(Client::default());
    let secret = "not-for-eyes";
    let args = json!({
        "method": "DELETE", "url": "https://Example.com/a?b=1",
        "headers": { "Authorization": format!("Bearer {secret}"), "X-Api-Key": secret, "accept": "text/plain" }, "body": "all of it",
    });
    let preparation = prepared(&tool, args).await.unwrap();
    assert_eq!(preparation.risk, Some(Risk::Execute));
    let expected = [
        Subject::new(SubjectKind::Host, "example.com"),
        Subject::new(SubjectKind::Url, "https://example.com/a?b=1"),
        Subject::new(SubjectKind::Method, "DELETE"),
    ];
    assert_eq!(preparation.subjects, expected);
    let preview = preparation.preview.unwrap();
    let expected = "DELETE https://example.com/a?b=1\nauthorization: (19 characters, not shown)\n\
                    x-api-key: (12 characters, not shown)\naccept: text/plain\n\nall of it";
    assert_eq!(preview, expected);
    for (method, risk) in [
        ("GET", Risk::Network),
        ("HEAD", Risk::Network),
        ("POST", Risk::Execute),
        ("PUT", Risk::Execute),
        ("PATCH", Risk::Execute),
    ] {
        let preparation =
            prepared(&tool, json!({ "method": method, "url": "https://example.com/" })).await.unwrap();
        assert_eq!(preparation.risk, Some(risk), "{method}");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_before_and_behind_a_name() {
    let inside = WebServer::of_pages([("/", Page::html("secret"))]).await;
    let tool = HttpTool::new(Client::default());
    let failure = prepared(&tool, json!({ "url": inside.url("/") })).await.unwrap_err();
    assert_eq!(failure.details.unwrap()["policy"]["verdict"], "deny");
    let failure = send(&tool, json!({ "url": inside.url("/") })).await.unwrap_err();
    assert_eq!(failure.details.unwrap()["policy"]["class"], "a loopback address (this machine)");
    assert_eq!(inside.asked(), []);
}

#[tokio::test]
async fn a_configured_tool_may_reach_its_own_host_and_a_chosen_one_may_not() {
    let server = WebServer::of_pages([("/", Page::new(200, "text/plain", "own"))]).await;
    let outgoing = |origin| HttpRequest {
        origin,
        method: Method::Get,
        url: server.url("/"),
        headers: Headers::default(),
        body: Vec::new(),
        timeout: Duration::from_secs(5),
        max_bytes: 1000,
    };
    let output = request(&Client::default(), outgoing(Origin::Configured)).await.unwrap();
    assert!(fenced(&output).ends_with("own"));
    assert!(request(&Client::default(), outgoing(Origin::Chosen)).await.is_err());
}
