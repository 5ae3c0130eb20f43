//! Logins on the way of a call: refreshed when they ran out or were refused, once, however many ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tidegate_models::FailureKind;
use tidegate_runtime::Clock as _;
use tidegate_secrets::{Credential, ProfileId, Secret};
use tidegate_testkit::model_server::{Kind, Turn};

use crate::heard::Heard;
use crate::house::{House, account_token, question};

const MODEL: &str = "openai-codex/gpt-5.2-codex";
const HOUR_MS: i64 = 3_600_000;

/// A house with one login, which ends in so many milliseconds.
async fn logged_in(lasts_ms: i64) -> House {
    let house = House::with(|config| {
        config["models"]["providers"]["openai-codex"]["apiKey"] = serde_json::Value::Null;
    })
    .await;
    let login = Credential::Oauth {
        access: Secret::new(account_token("first")),
        refresh: Secret::new("refresh-first"),
        expires_at: house.clock.now_ms() + lasts_ms,
        account_id: Some("account-0001".into()),
        email: None,
        client_id: Some("ours".into()),
        extra: BTreeMap::new(),
    };
    house.store("openai-codex/me", login);
    house
}

fn refreshes(house: &House) -> usize {
    house.server.requests().iter().filter(|request| request.path == "/oauth/token").count()
}

fn tokens(house: &House) -> Vec<String> {
    let token = |request: &tidegate_testkit::model_server::Recorded| {
        request.header("authorization").unwrap().trim_start_matches("Bearer ").to_owned()
    };
    house.asked().iter().map(token).collect()
}

#[tokio::test]
async fn a_login_that_lasts_is_used_as_it_is() {
    let house = logged_in(HOUR_MS).await;
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.text(), "You said: When?");
    assert_eq!((refreshes(&house), tokens(&house)), (0, vec![account_token("first")]));
    assert_eq!(house.server.last_request().header("chatgpt-account-id"), Some("account-0001"));
}

#[tokio::test]
async fn a_login_that_ran_out_is_refreshed_and_kept() {
    let house = logged_in(0).await;
    house.ask(&[MODEL], question("When?")).await;
    house.ask(&[MODEL], question("When?")).await;
    assert_eq!(refreshes(&house), 1);
    let used = tokens(&house);
    assert_ne!(used[0], account_token("first"));
    assert_eq!(used[0], used[1]);
    let sent = house.server.requests().into_iter().find(|request| request.path == "/oauth/token").unwrap();
    let form = json!({
        "grant_type": "refresh_token", "refresh_token": "refresh-first", "client_id": "ours",
        "scope": "openid profile email offline_access",
    });
    assert_eq!(sent.body, form);
    let id: ProfileId = "openai-codex/me".parse().unwrap();
    let kept = house.registry.credentials().unwrap().get(&id).unwrap().unwrap().credential;
    let Credential::Oauth { access, refresh, .. } = kept else { panic!("a login") };
    assert_eq!((access.expose(), refresh.expose()), (used[0].as_str(), "refresh-0001"));
}

#[tokio::test]
async fn a_refused_login_is_refreshed_once() {
    let house = logged_in(HOUR_MS).await;
    house.server.push(Turn::refuse(Kind::Auth));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!((heard.text().as_str(), heard.switched.len()), ("You said: When?", 0));
    assert_eq!((refreshes(&house), house.asked().len()), (1, 2));
    let used = tokens(&house);
    assert_ne!(used[0], used[1]);
}

#[tokio::test]
async fn a_login_that_is_refused_again_after_its_refresh_is_given_up() {
    let house = logged_in(HOUR_MS).await;
    house.server.always(Turn::refuse(Kind::Auth));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.failure().kind, FailureKind::Auth);
    assert_eq!((refreshes(&house), house.asked().len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_at_once_refresh_once() {
    let house = Arc::new(logged_in(0).await);
    let asking = (0..20).map(|_| {
        let house = Arc::clone(&house);
        async move {
            let stream = house.open(&House::spec(&[MODEL])).stream(question("When?"));
            tidegate_runtime::spawn("asking", Heard::read(stream)).join().await.unwrap().text()
        }
    });
    let answers = futures_util::future::join_all(asking).await;
    assert_eq!(answers, ["You said: When?"; 20]);
    assert_eq!(refreshes(&house), 1);
    let used = tokens(&house);
    assert!(used.iter().all(|token| *token == used[0] && *token != account_token("first")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_that_are_refused_at_once_refresh_once() {
    let house = Arc::new(logged_in(HOUR_MS).await);
    for _ in 0..20 {
        house.server.push(Turn::refuse(Kind::Auth));
    }
    let asking = (0..20).map(|_| {
        let house = Arc::clone(&house);
        async move {
            let stream = house.open(&House::spec(&[MODEL])).stream(question("When?"));
            tidegate_runtime::spawn("asking", Heard::read(stream)).join().await.unwrap()
        }
    });
    futures_util::future::join_all(asking).await;
    // Whoever comes late is refused with the fresh token, which is then refreshed in its turn; never the same one twice.
    let spent: Vec<_> =
        house.server.requests().into_iter().filter(|request| request.path == "/oauth/token").collect();
    let mut names: Vec<_> = spent.iter().map(|request| request.body["refresh_token"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), spent.len(), "a refresh token was spent twice");
    assert!(spent.len() < 20);
}

#[tokio::test]
async fn a_refresh_that_is_refused_asks_for_a_new_login_and_the_next_is_tried() {
    let house = logged_in(0).await;
    house.server.push_for("/oauth/token", Turn::json(400, json!({"error": "invalid_grant"})));
    let heard = house.ask(&[MODEL, "anthropic/claude-sonnet-4-5"], question("When?")).await;
    assert_eq!(heard.text(), "You said: When?");
    assert_eq!(heard.origin.unwrap().provider, "anthropic");
    let (_, profile, failure) = &heard.switched[0];
    assert_eq!((profile.as_deref(), failure.kind), (Some("openai-codex/me"), FailureKind::Auth));
    assert!(failure.message.contains("log in again"), "{}", failure.message);
    assert_eq!(refreshes(&house), 1, "a refresh token that was refused is not sent again");
}

#[tokio::test]
async fn a_sign_in_that_cannot_be_reached_says_nothing_about_the_login() {
    let house = logged_in(0).await;
    house.server.push_for("/oauth/token", Turn::json(503, json!({"error": "later"})));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.failure().kind, FailureKind::Broken, "{:?}", heard.failure());
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.text(), "You said: When?", "it is not held against it");
}

#[tokio::test]
async fn a_github_token_is_exchanged_once_and_again_when_it_is_refused() {
    let house = House::new().await;
    let model = "github-copilot/gpt-5.2";
    house.ask(&[model], question("When?")).await;
    house.ask(&[model], question("When?")).await;
    let exchanges = |house: &House| {
        house.server.requests().iter().filter(|request| request.path == "/copilot_internal/v2/token").count()
    };
    assert_eq!(exchanges(&house), 1);
    let used = tokens(&house);
    assert!(used[0].starts_with("tid=played-0001") && used[0] == used[1], "{used:?}");
}
