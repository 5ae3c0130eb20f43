//! Who may enter, over every address.

use hyper::StatusCode;
use serde_json::json;
use tidegate_gateway::{Access, COOKIE, ROUTES, Route};

use crate::house::House;
use crate::wire::Call;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    BadToken,
    Token,
    Cookie,
    ForgedCookie,
    Control,
}

const EVERYBODY: [Who; 6] =
    [Who::Nobody, Who::BadToken, Who::Token, Who::Cookie, Who::ForgedCookie, Who::Control];

/// The refusal that is due, if one is.
fn refused(who: Who, access: Access) -> Option<&'static str> {
    match (who, access) {
        (Who::Control, _) | (_, Access::Open) => None,
        (_, Access::Control) => Some("FORBIDDEN"),
        (Who::Token, _) | (Who::Cookie, Access::Page) => None,
        _ => Some("UNAUTHORIZED"),
    }
}

fn method(route: &Route) -> &'static str {
    match route.method {
        "get" => "GET",
        "post" => "POST",
        "delete" => "DELETE",
        "patch" => "PATCH",
        other => panic!("a test for {other} is missing"),
    }
}

fn path(route: &Route) -> String {
    route
        .path
        .replace("{name}", "main")
        .replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
        .replace("{*id}", "tidegate:main")
}

fn call(house: &House, who: Who, cookie: &str, method: &'static str, path: &str) -> Call {
    let origin = format!("http://{}", house.address());
    match who {
        Who::Nobody => house.call(method, path),
        Who::BadToken => house.call(method, path).with("authorization", "Bearer wrong"),
        Who::Token => house.owner(method, path),
        Who::Cookie => house.call(method, path).with("cookie", cookie).with("origin", &origin),
        Who::ForgedCookie => {
            let forged = format!("{COOKIE}=v1.9999999999.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
            house.call(method, path).with("cookie", &forged).with("origin", &origin)
        }
        Who::Control => house.control_call(method, path),
    }
}

#[tokio::test]
async fn every_address_wants_exactly_the_proof_it_is_listed_with() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    for route in ROUTES {
        for who in EVERYBODY {
            // Whoever guesses has to wait.
            house.clock.pass(61_000);
            let answer = call(&house, who, &cookie, method(route), &path(route)).open().await;
            let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
            let (status, streams) = (answer.status(), kind.as_deref() == Some("text/event-stream"));
            let expected = refused(who, route.access);
            if streams {
                assert_eq!(expected, None, "{who:?} {route:?}");
                continue;
            }
            let code = call(&house, who, &cookie, method(route), &path(route)).send().await.code();
            match expected {
                Some(expected) => assert_eq!(code, expected, "{who:?} {route:?}"),
                None => assert!(
                    !["UNAUTHORIZED", "FORBIDDEN"].contains(&code.as_str()),
                    "{who:?} {route:?}: {status} {code}"
                ),
            }
        }
    }
    assert!(house.stop.is_requested(), "the control socket may ask for the end");
}

#[tokio::test]
async fn a_name_or_page_that_is_not_ours_gets_nothing() {
    let house = House::open().await;
    let own = house.address().to_string();
    let local = format!("localhost:{}", house.address().port());
    for path in ["/", "/healthz", "/api/v1/me", "/api/v1/sessions/main/events", "/v1/models", "/nowhere"] {
        for (host, origin, expected) in [
            ("evil.example", "(none)", StatusCode::MISDIRECTED_REQUEST),
            ("localhost:1", "(none)", StatusCode::MISDIRECTED_REQUEST),
            ("(none)", "(none)", StatusCode::MISDIRECTED_REQUEST),
            (own.as_str(), "http://evil.example", StatusCode::FORBIDDEN),
            (own.as_str(), "null", StatusCode::FORBIDDEN),
            (own.as_str(), "http://localhost:1", StatusCode::FORBIDDEN),
        ] {
            let reply = house.owner("GET", path).with("host", host).with("origin", origin).send().await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (expected, "FORBIDDEN"),
                "{path} {host} {origin}"
            );
        }
        for (host, origin) in [(own.as_str(), "(none)"), (local.as_str(), "(none)")] {
            let answer = house.owner("GET", path).with("host", host).with("origin", origin).open().await;
            assert_ne!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{path} {host}");
            assert_ne!(answer.status(), StatusCode::FORBIDDEN, "{path} {host}");
        }
    }
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    let post = || {
        let call = house.call("POST", "/api/v1/sessions/main/messages").with("cookie", &cookie);
        call.json(&json!({"text": "hi", "key": "k"}))
    };
    assert_eq!(post().send().await.code(), "FORBIDDEN");
    assert_eq!(post().with("sec-fetch-site", "same-site").send().await.code(), "FORBIDDEN");
    assert_eq!(post().with("sec-fetch-site", "same-origin").send().await.status, StatusCode::ACCEPTED);
    let own = format!("http://{}", house.address());
    assert_eq!(post().with("origin", &own).send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_protect_it() {
    let house = House::open().await;
    for call in [
        house.call("GET", "/"),
        house.call("GET", "/healthz"),
        house.call("GET", "/api/v1/me"),
        house.owner("GET", "/api/v1/me"),
        house.call("GET", "/login?code=x"),
        house.call("GET", "/healthz").with("host", "evil.example"),
    ] {
        let reply = call.send().await;
        assert!(
            reply.header("content-security-policy").starts_with("default-src 'self'; frame-ancestors 'none'")
        );
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert!(["no-store", "no-cache"].contains(&reply.header("cache-control")));
        assert_eq!(reply.header("access-control-allow-origin"), "");
    }
}

#[tokio::test]
async fn what_is_not_there_or_not_fitting_is_told_with_a_code() {
    let house = House::open().await;
    let post = |path: &str| house.owner("POST", path);
    let large = vec![b' '; 2 * 1024 * 1024];
    for (call, status, code) in [
        (house.owner("GET", "/api/v1/nowhere"), 404, "NOT_FOUND"),
        (house.owner("GET", "/nowhere.js"), 404, "NOT_FOUND"),
        (house.owner("GET", "/v1/nowhere"), 404, "NOT_FOUND"),
        (house.owner("DELETE", "/api/v1/me"), 405, "METHOD_NOT_ALLOWED"),
        (post("/api/v1/ask").bytes(b"hi".to_vec()), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (post("/api/v1/ask").with("content-type", "application/json").bytes(large), 413, "PAYLOAD_TOO_LARGE"),
        (
            post("/v1/chat/completions")
                .with("content-type", "application/json")
                .bytes(vec![b' '; 21 * 1024 * 1024]),
            413,
            "PAYLOAD_TOO_LARGE",
        ),
        (post("/api/v1/ask").json(&json!({"text": 5})), 400, "BAD_REQUEST"),
        (post("/api/v1/sessions/main/messages").json(&json!({"text": " ", "key": "k"})), 400, "BAD_REQUEST"),
        (post("/api/v1/sessions/main/messages").json(&json!({"text": "hi", "key": ""})), 400, "BAD_REQUEST"),
        (
            post("/api/v1/sessions/tenant%3Ax/messages").json(&json!({"text": "hi", "key": "k"})),
            400,
            "BAD_REQUEST",
        ),
        (
            post("/api/v1/sessions/tenant%3Alocal%2Fworkspace%3Adefault%2Fagent%3Aghost%2Fmain/messages")
                .json(&json!({"text": "hi", "key": "k"})),
            404,
            "NOT_FOUND",
        ),
        (
            post("/api/v1/sessions/tenant%3Aelse%2Fworkspace%3Adefault%2Fagent%3Amain%2Fmain/messages")
                .json(&json!({"text": "hi", "key": "k"})),
            404,
            "NOT_FOUND",
        ),
        (post("/api/v1/runs/01890a5d-ac96-774b-bcce-b302099a8057/abort"), 404, "NOT_FOUND"),
        (post("/api/v1/runs/what/abort"), 404, "NOT_FOUND"),
        (post("/api/v1/outbox/what/retry"), 404, "NOT_FOUND"),
        (post("/api/v1/outbox/01890a5d-ac96-774b-bcce-b302099a8057/drop"), 404, "NOT_FOUND"),
        (house.owner("DELETE", "/api/v1/sessions/nothing"), 404, "NOT_FOUND"),
    ] {
        let path = format!("{status} {code}");
        let reply = call.send().await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (status, code), "{path}");
        assert_eq!(reply.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn a_refusal_says_how_to_mend_it_in_the_callers_language() {
    let house = House::open().await;
    let hint = async |language: &str| {
        let reply = house.call("GET", "/api/v1/me").with("accept-language", language).send().await;
        reply.json()["error"]["hint"].as_str().unwrap().to_owned()
    };
    assert!(hint("en-GB,en;q=0.9").await.contains("tidegate gateway link"));
    assert!(hint("zh-CN,zh;q=0.9,en;q=0.8").await.contains("请打开"));
}
