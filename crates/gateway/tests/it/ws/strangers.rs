//! Those who try to get in: with what is not theirs, from where they should not, again and again.

use serde_json::{Value, json};
use tidegate_gateway::{Access, ROUTES};
use tidegate_runtime::Clock as _;
use tokio_tungstenite::tungstenite::Error;

use super::client::{Client, Device, Read, entered, operator, program};
use crate::house::House;

/// The status with which an upgrade is refused.
async fn upgrade(house: &House, path: &str, headers: &[(&str, &str)]) -> u16 {
    match Client::open(house, path, headers).await {
        Ok(_) => 101,
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

/// What a client is told that says this first.
async fn told(house: &House, params: &Value) -> Value {
    let mut client = Client::open(house, "/", &[]).await.unwrap();
    client.frame().await;
    let answer = client.call("connect", params.clone()).await;
    if answer["ok"] == false {
        assert!(matches!(client.read().await, Read::Closed(1008, _)));
    }
    answer
}

#[tokio::test]
async fn no_page_of_another_site_and_no_other_name_opens_a_socket() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    let (own, port) = (house.address().to_string(), house.address().port());
    for path in ["/", "/ws", "/api/v1/me", "/any/where"] {
        for origin in
            ["http://evil.example", "null", "", "https://localhost", &format!("http://{own}.evil.example")]
        {
            let refused = upgrade(&house, path, &[("origin", origin), ("cookie", &cookie)]).await;
            assert_eq!(refused, 403, "{path} {origin:?}");
        }
        // Names that only look like this machine, as another name server may make them point here.
        for name in [
            "evil.example",
            "127.evil.com",
            "127.0.0.1.evil.com",
            "localhost.evil.com",
            "localhost.",
            "127.1.evil",
            "0x7f.1",
            "2130706433",
            "[::ffff:1.2.3.4]",
            "evil.com@127.0.0.1",
        ] {
            let host = format!("{name}:{port}");
            assert_eq!(upgrade(&house, path, &[("host", &host)]).await, 421, "{path} {host}");
        }
    }
    assert_eq!(upgrade(&house, "/", &[("origin", &format!("http://{own}"))]).await, 101);
    assert_eq!(upgrade(&house, "/", &[]).await, 101, "a program says no origin");
    // A page has to say where it is from even when nothing else is wrong.
    let mut page = program(&house, &["operator.admin"]);
    page["client"]["id"] = json!("openclaw-control-ui");
    assert_eq!(told(&house, &page).await["error"]["message"], "origin missing or invalid");
}

#[tokio::test]
async fn a_browser_changes_nothing_for_another_site() {
    let house = House::open().await;
    let cookie = house.cookie().await;
    let mutating = ROUTES.iter().filter(|route| route.method != "get" && route.access == Access::Page);
    for route in mutating {
        let method = match route.method {
            "post" => "POST",
            "delete" => "DELETE",
            "patch" => "PATCH",
            other => panic!("a test for {other} is missing"),
        };
        let path =
            route.path.replace("{name}", "main").replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057");
        let with = |headers: &[(&str, &str)]| {
            let call = house.call(method, &path).with("cookie", &cookie).bytes(b"{}".to_vec());
            headers.iter().fold(call, |call, (name, value)| call.with(name, value))
        };
        for headers in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("content-type", "text/plain")],
            &[("content-type", "text/plain"), ("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
        ] {
            let reply = with(headers).send().await;
            assert_eq!(
                (reply.status.as_u16(), reply.code().as_str()),
                (403, "FORBIDDEN"),
                "{path} {headers:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_token_counts_when_it_is_right_and_not_when_it_is_there() {
    let house = House::open().await;
    let device = Device::new(3);
    let sign = |params: Value| device.sign(params, 1, "", house.clock.now_ms());
    let secrets = [
        json!({ "token": "garbage" }),
        json!({ "deviceToken": "garbage" }),
        json!({ "password": "garbage" }),
        json!({ "bootstrapToken": "garbage" }),
        json!({ "token": "", "password": house.token }),
        json!({ "bootstrapToken": house.token }),
        json!({ "token": format!("{} ", house.token) }),
        json!({ "token": house.token.to_uppercase() }),
        json!({ "token": &house.token[1..] }),
        json!({ "token": "garbage", "deviceToken": "garbage", "password": "garbage" }),
    ];
    for auth in &secrets {
        for role in ["operator", "node"] {
            let mut params = program(&house, &["operator.admin"]);
            params["auth"] = auth.clone();
            params["role"] = json!(role);
            for params in [params.clone(), sign(params)] {
                house.clock.pass(61_000);
                let mut params = params;
                if params.get("device").is_some() {
                    params = sign({
                        let mut plain = params;
                        plain.as_object_mut().unwrap().remove("device");
                        plain
                    });
                }
                let answer = told(&house, &params).await;
                assert_eq!(answer["ok"], false, "{auth} {role}");
                let code = answer["error"]["details"]["code"].as_str().unwrap_or("none");
                assert!(["AUTH_TOKEN_MISSING", "AUTH_TOKEN_MISMATCH", "none"].contains(&code), "{answer}");
            }
        }
    }
    for auth in [json!({}), json!({ "auth": { "token": "garbage" } }), json!({ "authToken": [house.token] })]
    {
        house.clock.pass(61_000);
        let mut client = Client::open(&house, "/ws", &[]).await.unwrap();
        assert_eq!(client.refusal("connect", auth).await.0, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn scopes_are_what_was_granted_and_never_what_is_claimed() {
    let house = House::open().await;
    let device = Device::new(4);
    let sign = |params: Value| device.sign(params, 1, "", house.clock.now_ms());
    let (_, hello) = entered(&house, sign(program(&house, &["operator.read"]))).await;
    let own = hello["auth"]["deviceToken"].as_str().unwrap().to_owned();
    let claim = |scopes: &[&str], role: &str| {
        let mut params = program(&house, scopes);
        params["auth"] = json!({ "token": own });
        params["role"] = json!(role);
        sign(params)
    };
    let (mut reader, hello) = entered(&house, claim(&["operator.read"], "operator")).await;
    assert_eq!(hello["auth"]["scopes"], json!(["operator.read"]));
    assert_eq!(reader.refusal("config.get", json!({})).await.1, "missing scope: operator.admin");
    for (scopes, role) in [
        (&["operator.admin"][..], "operator"),
        (&["operator.read", "operator.write"], "operator"),
        // None means all.
        (&[], "operator"),
        (&[], "node"),
    ] {
        let answer = told(&house, &claim(scopes, role)).await;
        assert_eq!(answer["ok"], false, "{scopes:?} {role}");
        assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH", "{answer}");
    }
    // Words that nobody knows grant nothing, and neither do other fields.
    let mut params = program(&house, &["operator.everything", "OPERATOR.ADMIN"]);
    params["permissions"] = json!({ "operator.admin": true });
    params["provenance"] = json!({ "kind": "owner" });
    let (mut nothing, hello) = entered(&house, params).await;
    assert_eq!(hello["auth"]["scopes"], json!([]));
    assert_eq!(nothing.refusal("health", json!({})).await.1, "missing scope: operator.read");
}

#[tokio::test]
async fn whoever_pairs_devices_gives_away_no_more_than_they_have() {
    let house = House::open().await;
    let mut admin = operator(&house).await;
    let (mut pairer, _) = entered(&house, program(&house, &["operator.pairing", "operator.read"])).await;
    let away = [("x-forwarded-for", "203.0.113.7")];
    let device = Device::new(5);
    let ask = async |scopes: &[&str]| {
        let mut client = Client::open(&house, "/", &away).await.unwrap();
        let nonce = client.frame().await["payload"]["nonce"].as_str().unwrap().to_owned();
        let params = device.sign(program(&house, scopes), 2, &nonce, house.clock.now_ms());
        client.call("connect", params).await
    };
    let request = |answer: &Value| json!({ "requestId": answer["error"]["details"]["requestId"] });
    let wide = request(&ask(&["operator.admin"]).await);
    assert_eq!(pairer.refusal("device.pair.approve", wide.clone()).await.1, "missing scope: operator.admin");
    // It still waits for somebody who may.
    admin.payload("device.pair.approve", wide).await;
    let rotate = |scopes: Value| json!({ "deviceId": device.id(), "role": "operator", "scopes": scopes });
    let whole = json!({ "deviceId": device.id(), "role": "operator" });
    assert_eq!(pairer.refusal("device.token.rotate", whole.clone()).await.1, "missing scope: operator.admin");
    admin.payload("device.token.revoke", whole.clone()).await;
    assert_eq!(pairer.refusal("device.token.rotate", whole).await.1, "missing scope: operator.admin");
    let narrow = pairer.payload("device.token.rotate", rotate(json!(["operator.read"]))).await;
    assert_eq!(narrow["scopes"], json!([]), "never more than it had");
    let small = request(&ask(&["operator.read"]).await);
    pairer.payload("device.pair.approve", small).await;
}

#[tokio::test]
async fn a_thousand_guesses_are_told_to_wait_and_lock_nobody_out() {
    let house = House::open().await;
    let mut limited = 0;
    for guess in 0..1000_u32 {
        // Other fields, other headers, other doors: it is the same guesser.
        let spoofed = format!("10.{}.{}.{}", guess % 7, guess % 13, guess % 251);
        let text = format!("guess-{guess}");
        let was_limited = match guess % 4 {
            0 => {
                let mut params = program(&house, &["operator.admin"]);
                let field = ["token", "deviceToken", "password", "bootstrapToken"][(guess / 4 % 4) as usize];
                params["auth"] = json!({ "token": text, field: text });
                params["locale"] = json!(spoofed);
                let headers = [("x-forwarded-for", spoofed.as_str()), ("x-real-ip", "10.0.0.1")];
                let mut client = Client::open(&house, "/", &headers).await.unwrap();
                client.frame().await;
                let answer = client.call("connect", params).await;
                assert_eq!(answer["ok"], false);
                let limited = answer["error"]["details"]["code"] == "AUTH_RATE_LIMITED";
                assert_eq!(answer["error"]["retryAfterMs"].is_u64(), limited, "{answer}");
                limited
            }
            1 => {
                let mut client = Client::open(&house, "/ws", &[]).await.unwrap();
                let answer = client.call("connect", json!({ "auth": { "token": text } })).await;
                assert_eq!(answer["error"]["code"], "UNAUTHORIZED");
                answer["error"]["details"]["code"] == "AUTH_RATE_LIMITED"
            }
            _ => {
                let bearer = format!("Bearer {text}");
                let path = ["/v1/models", "/api/v1/me"][(guess % 2) as usize];
                let call = house.call("GET", path).with("authorization", &bearer);
                let reply = call.with("x-forwarded-for", &spoofed).send().await;
                assert!([401, 429].contains(&reply.status.as_u16()), "{}", reply.status);
                reply.status.as_u16() == 429
            }
        };
        limited += u32::from(was_limited);
        if guess % 100 == 99 {
            // From the same address, at the same time: whoever has the token is served.
            operator(&house).await.payload("status", json!({})).await;
            assert_eq!(house.owner("GET", "/api/v1/me").send().await.status.as_u16(), 200);
        }
    }
    assert_eq!(limited, 990, "ten honest mistakes, then a guesser");
    house.clock.pass(61_000);
    let wrong = house.call("GET", "/v1/models").with("authorization", "Bearer wrong").send().await;
    assert_eq!(wrong.status.as_u16(), 401, "a minute later it is a mistake again");
}

#[tokio::test]
async fn a_token_that_was_renewed_or_taken_away_is_void_at_once() {
    let house = House::open().await;
    let mut admin = operator(&house).await;
    let device = Device::new(6);
    let enter = |token: &str| {
        let mut params = program(&house, &["operator.read"]);
        params["auth"] = json!({ "token": token });
        device.sign(params, 1, "", house.clock.now_ms())
    };
    let (first, hello) = entered(&house, enter(&house.token)).await;
    let old = hello["auth"]["deviceToken"].as_str().unwrap().to_owned();
    let (mut with_old, _) = entered(&house, enter(&old)).await;
    drop(first);
    let of = json!({ "deviceId": device.id(), "role": "operator" });
    let new = admin.payload("device.token.rotate", of.clone()).await["token"].as_str().unwrap().to_owned();
    assert_eq!(last(&mut with_old).await, (1008, "device removed".to_owned()));
    assert_eq!(told(&house, &enter(&old)).await["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH");
    let (mut with_new, _) = entered(&house, enter(&new)).await;
    admin.payload("device.token.revoke", of).await;
    assert_eq!(last(&mut with_new).await, (1008, "device removed".to_owned()));
    assert_eq!(told(&house, &enter(&new)).await["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH");
}

/// How a socket ends.
async fn last(client: &mut Client) -> (u16, String) {
    loop {
        if let Read::Closed(code, reason) = client.read().await {
            return (code, reason);
        }
    }
}
