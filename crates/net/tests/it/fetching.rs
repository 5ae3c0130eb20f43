//! Whole exchanges: redirects, limits, deadlines, servers that misbehave.

use std::time::{Duration, Instant};

use tidegate_net::{AddressClass, Client, Fetch, Fetched, Guard, Hosts, Method, NetError, Origin, Timeouts};
use tidegate_testkit::web_server::{Page, WebServer};

use crate::refusing::{Answers, get};

const LIMIT: usize = 64 << 10;

/// A client that takes these servers for public ones.
fn client(servers: &[&WebServer]) -> Client {
    let allowed = servers.iter().map(|server| server.address().to_string());
    Client::default().guarded_by(Guard::allowing(allowed).unwrap())
}

fn fetch(url: &str) -> Fetch {
    Fetch { call: get(url), redirects: 3, hosts: Hosts::Any, deadline: Duration::from_secs(10), limit: LIMIT }
}

async fn fetched(server: &WebServer, path: &str) -> Result<Fetched, NetError> {
    client(&[server]).fetch(fetch(&server.url(path))).await
}

#[tokio::test]
async fn redirects_are_followed_up_to_their_number() {
    let pages = [
        ("/1", Page::redirect(301, "/2")),
        ("/2", Page::redirect(302, "3?x=1#there")),
        ("/3", Page::redirect(307, "./4")),
        ("/4", Page::html("here")),
        ("/0", Page::redirect(308, "/1")),
        ("/loop", Page::redirect(303, "/loop")),
    ];
    let server = WebServer::of_pages(pages).await;
    let fetched_1 = fetched(&server, "/1").await.unwrap();
    assert_eq!((fetched_1.status, fetched_1.hops, fetched_1.body.as_slice()), (200, 3, &b"here"[..]));
    assert_eq!(fetched_1.url, server.url("/4"));
    assert!(!fetched_1.downgraded);
    for path in ["/0", "/loop"] {
        let error = fetched(&server, path).await.unwrap_err();
        assert_eq!(error, NetError::Redirects { host: "127.0.0.1".to_owned(), limit: 3 });
    }
}

#[tokio::test]
async fn a_redirect_is_judged_like_a_first_address() {
    let inside = WebServer::of_pages([("/", Page::html("secret"))]).await;
    let targets = [
        inside.url("/"),
        format!("http://localhost:{}/", inside.address().port()),
        format!("//2130706433:{}/", inside.address().port()),
        "http://169.254.169.254/latest/".to_owned(),
        "http://[::ffff:10.0.0.1]/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://me:word@example.com/".to_owned(),
    ];
    for target in &targets {
        let outside = WebServer::of_pages([("/", Page::redirect(302, target))]).await;
        let error = fetched(&outside, "/").await.unwrap_err();
        assert!(matches!(error, NetError::Forbidden { .. } | NetError::BadAddress(_)), "{target}: {error:?}");
    }
    assert_eq!(inside.asked(), []);
}

#[tokio::test]
async fn a_redirect_to_another_host_is_the_answer_where_only_the_first_was_permitted() {
    let pages = [
        ("/away", Page::redirect(302, "http://other.example/page")),
        ("/own", Page::redirect(302, "/end")),
        ("/end", Page::html("end")),
    ];
    let server = WebServer::of_pages(pages).await;
    let stay = |path: &str| Fetch { hosts: Hosts::Same, ..fetch(&server.url(path)) };
    let away = client(&[&server]).fetch(stay("/away")).await.unwrap();
    assert_eq!((away.status, away.hops), (302, 0));
    assert_eq!(away.header("location"), Some("http://other.example/page"));
    let own = client(&[&server]).fetch(stay("/own")).await.unwrap();
    assert_eq!((own.status, own.hops), (200, 1));
}

#[tokio::test]
async fn a_name_that_turns_private_between_two_hops_is_refused() {
    let server =
        WebServer::of_pages([("/", Page::redirect(302, "/again")), ("/again", Page::html("no"))]).await;
    let answers = Answers::of(&[&["127.0.0.1"], &["127.0.0.3"]]);
    let guard = Guard::allowing([server.address().to_string()]).unwrap().resolving_with(answers);
    let url = format!("http://rebind.example:{}/", server.address().port());
    let error = Client::default().guarded_by(guard).fetch(fetch(&url)).await.unwrap_err();
    let NetError::Forbidden { class: AddressClass::Loopback, address, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(address, Some("127.0.0.3".parse().unwrap()));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn where_a_configured_server_redirects_to_was_not_configured() {
    let inside = WebServer::of_pages([("/", Page::html("secret"))]).await;
    let pages = [
        ("/", Page::redirect(302, &inside.url("/"))),
        ("/own", Page::redirect(302, "/page")),
        ("/page", Page::html("own")),
    ];
    let server = WebServer::of_pages(pages).await;
    let mut configured = fetch(&server.url("/own"));
    configured.call.origin = Origin::Configured;
    assert_eq!(Client::default().fetch(configured.clone()).await.unwrap().body, b"own");
    configured.call.url = server.url("/");
    let error = Client::default().fetch(configured).await.unwrap_err();
    assert!(matches!(error, NetError::Forbidden { class: AddressClass::Loopback, .. }), "{error:?}");
    assert_eq!(inside.asked(), []);
}

#[tokio::test]
async fn keys_stay_with_the_server_they_were_meant_for() {
    let other = WebServer::of_pages([("/", Page::html("other"))]).await;
    let pages = [
        ("/away", Page::redirect(302, &other.url("/"))),
        ("/stay", Page::redirect(302, "/end")),
        ("/end", Page::html("end")),
    ];
    let server = WebServer::of_pages(pages).await;
    let client = client(&[&server, &other]);
    for path in ["/away", "/stay"] {
        let mut fetch = fetch(&server.url(path));
        fetch.call.headers.set("authorization", "Bearer of-a-secret");
        fetch.call.headers.set("x-key", "of-a-secret");
        fetch.call.headers.set("accept", "text/html");
        client.fetch(fetch).await.unwrap();
    }
    let away = &other.asked()[0].headers;
    assert_eq!(away.get("accept").map(String::as_str), Some("text/html"));
    assert!(!away.contains_key("authorization") && !away.contains_key("x-key"));
    assert_eq!(server.asked()[2].headers["authorization"], "Bearer of-a-secret");
}

#[tokio::test]
async fn a_request_that_changes_something_is_not_sent_on() {
    let server =
        WebServer::of_pages([("/", Page::redirect(307, "/next")), ("/next", Page::html("no"))]).await;
    for method in [Method::Post, Method::Put, Method::Patch, Method::Delete] {
        let mut fetch = fetch(&server.url("/"));
        fetch.call.method = method;
        fetch.call.body = b"body".to_vec();
        let fetched = client(&[&server]).fetch(fetch).await.unwrap();
        assert_eq!((fetched.status, fetched.hops, fetched.header("location")), (307, 0, Some("/next")));
    }
    let seen: Vec<_> = server.asked().into_iter().map(|asked| (asked.method, asked.body)).collect();
    let expected = ["POST", "PUT", "PATCH", "DELETE"].map(|method| (method.to_owned(), b"body".to_vec()));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let server = WebServer::of_pages([("/", Page::raw(head).then_flood(&[b'x'; 8192]))]).await;
    let fetched = fetched(&server, "/").await.unwrap();
    assert_eq!((fetched.body.len(), fetched.cut), (LIMIT, true));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    let server = WebServer::of_pages([("/", Page::new(200, "text/plain", vec![b'x'; LIMIT]))]).await;
    let fetched = fetched(&server, "/").await.unwrap();
    assert_eq!((fetched.body.len(), fetched.cut), (LIMIT, false));
}

#[tokio::test]
async fn a_body_that_drips_ends_at_the_deadline_and_one_that_stalls_when_idle() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    let drip = Page::raw(head).then_drip(b"x", Duration::from_millis(50));
    let server = WebServer::of_pages([("/drip", drip), ("/stall", Page::raw(head).then_stall())]).await;
    let begun = Instant::now();
    let slow = Fetch { deadline: Duration::from_secs(1), ..fetch(&server.url("/drip")) };
    let error = client(&[&server]).fetch(slow).await.unwrap_err();
    assert_eq!(error, NetError::Deadline { host: "127.0.0.1".to_owned(), within: Duration::from_secs(1) });
    assert!(error.is_timeout());
    let mut stalled = fetch(&server.url("/stall"));
    stalled.call.timeouts = Timeouts { idle: Duration::from_millis(200) };
    let error = client(&[&server]).fetch(stalled).await.unwrap_err();
    assert!(matches!(error, NetError::Idle { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_server_that_speaks_nonsense_is_an_error() {
    let pages = [
        ("/noise", Page::raw("this is not HTTP\r\n\r\n")),
        ("/nothing", Page::raw("")),
        ("/torn", Page::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort")),
        ("/chunks", Page::raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx")),
    ];
    let server = WebServer::of_pages(pages).await;
    for path in ["/noise", "/nothing", "/torn", "/chunks"] {
        let error = fetched(&server, path).await.unwrap_err();
        assert!(matches!(error, NetError::Broken { .. }), "{path}: {error:?}");
    }
}

#[tokio::test]
async fn headers_of_an_answer_are_bounded() {
    let mut head = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_owned();
    for number in 0..90 {
        head = format!("{head}x-{number}: {}\r\n", "v".repeat(3000));
    }
    let server = WebServer::of_pages([("/", Page::raw(format!("{head}\r\n")))]).await;
    let fetched = fetched(&server, "/").await.unwrap();
    assert_eq!(fetched.headers.len(), 64);
    assert!(fetched.headers.iter().all(|(_, value)| value.len() <= 2048));
}

#[tokio::test]
async fn a_head_request_has_no_body_and_follows() {
    let head = Page::raw("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n");
    let server = WebServer::of_pages([("/", Page::redirect(302, "/end")), ("/end", head)]).await;
    let mut fetch = fetch(&server.url("/"));
    fetch.call.method = Method::Head;
    let fetched = client(&[&server]).fetch(fetch).await.unwrap();
    assert_eq!(
        (fetched.status, fetched.body.len(), fetched.header("content-length")),
        (200, 0, Some("1000"))
    );
}
