//! Logging a browser in.

use hyper::StatusCode;
use serde_json::json;

use crate::house::House;

impl House {
    /// The cookie of a browser that followed a link.
    pub(crate) async fn cookie(&self) -> String {
        let reply = self.call("GET", &self.link().await).send().await;
        assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, "/"));
        reply.header("set-cookie").split(';').next().unwrap().to_owned()
    }

    /// A fresh link, from its path on.
    async fn link(&self) -> String {
        let reply = self.control_call("POST", "/api/v1/login-links").send().await;
        let link = reply.json()["link"].as_str().unwrap().to_owned();
        link.strip_prefix(&format!("http://{}", self.address())).unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_link_logs_in_once() {
    let house = House::open().await;
    let link = house.link().await;
    let first = house.call("GET", &link).send().await;
    assert_eq!((first.status, first.header("location")), (StatusCode::SEE_OTHER, "/"));
    let set = first.header("set-cookie");
    for part in ["tidegate_session=v1.", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap();
    let me = house.call("GET", "/api/v1/me").with("cookie", cookie).send().await;
    assert_eq!(
        me.json(),
        json!({"name": "local:owner", "version": env!("CARGO_PKG_VERSION"), "agent": "main"})
    );
    let second = house.call("GET", &link).send().await;
    assert_eq!((second.status, second.header("set-cookie")), (StatusCode::UNAUTHORIZED, ""));
    let page = String::from_utf8(second.body).unwrap();
    assert!(page.contains("tidegate gateway link"), "{page}");
}

#[tokio::test]
async fn a_browser_that_looks_ahead_does_not_use_the_link_up() {
    let house = House::open().await;
    let link = house.link().await;
    for (name, value) in
        [("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch"), ("x-moz", "prefetch")]
    {
        assert_eq!(house.call("GET", &link).with(name, value).send().await.header("set-cookie"), "");
    }
    assert_eq!(house.call("HEAD", &link).send().await.header("set-cookie"), "");
    assert_eq!(house.call("GET", &link).send().await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_pasted_link_or_code_logs_in_and_a_wrong_one_is_refused() {
    let house = House::open().await;
    let log_in =
        async |code: &str| house.call("POST", "/api/v1/login").json(&json!({ "code": code })).send().await;
    let link = house.link().await;
    let whole = format!("http://{}{link}", house.address());
    let good = log_in(&whole).await;
    assert_eq!(good.status, StatusCode::NO_CONTENT);
    assert!(good.header("set-cookie").starts_with("tidegate_session=v1."));
    let again = log_in(&whole).await;
    assert_eq!((again.status, again.code().as_str()), (StatusCode::UNAUTHORIZED, "LOGIN_CODE_INVALID"));
    let code = house.link().await.split_once("code=").unwrap().1.to_owned();
    assert_eq!(log_in(&code).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn guessing_codes_ends_soon_and_starts_again_later() {
    let house = House::open().await;
    let link = house.link().await;
    for _ in 0..5 {
        assert_eq!(house.call("GET", "/login?code=guess").send().await.status, StatusCode::UNAUTHORIZED);
    }
    let more = house.call("GET", "/login?code=guess").send().await;
    assert_eq!(more.status, StatusCode::TOO_MANY_REQUESTS);
    let posted = house.call("POST", "/api/v1/login").json(&json!({"code": "x"})).send().await;
    assert_eq!((posted.code().as_str(), posted.header("retry-after")), ("TOO_MANY_REQUESTS", "60"));
    // Whoever has a good link is not locked out by those who guess.
    assert_eq!(house.call("GET", &link).send().await.status, StatusCode::SEE_OTHER);
    house.clock.pass(61_000);
    assert_eq!(house.call("GET", "/login?code=guess").send().await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_login_ends_with_its_time() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    let me = async || house.call("GET", "/api/v1/me").with("cookie", &cookie).send().await.status;
    house.clock.pass(29 * 24 * 3_600_000);
    assert_eq!(me().await, StatusCode::OK);
    house.clock.pass(2 * 24 * 3_600_000);
    assert_eq!(me().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn logging_out_takes_the_cookie_away() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    let own = format!("http://{}", house.address());
    let reply =
        house.call("POST", "/api/v1/logout").with("cookie", &cookie).with("origin", &own).send().await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
}
