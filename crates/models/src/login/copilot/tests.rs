//! The login against a server that plays GitHub.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;

use super::*;
use tidegate_testkit::login_server::{Server, closed_port};

#[derive(Default)]
struct Person(Mutex<Vec<(String, String)>>);

#[async_trait]
impl LoginUi for Person {
    fn show_url(&self, _: &str) {}

    fn show_code(&self, url: &str, code: &str) {
        self.0.lock().unwrap().push((url.to_owned(), code.to_owned()));
    }

    async fn paste(&self) -> Option<String> {
        None
    }
}

fn settings(server: &Server) -> Settings {
    let endpoints = Endpoints {
        device_code: server.url("/login/device/code"),
        access_token: server.url("/login/oauth/access_token"),
        exchange: server.url("/copilot_internal/v2/token"),
    };
    Settings { endpoints, client_id: Some("client-1".into()) }
}

/// GitHub, answering the polls with these in turn, the last one for ever.
async fn github(polls: &'static [&'static str], life: f64) -> Server {
    let polled = AtomicUsize::new(0);
    Server::start(move |request| {
        let body = match request.line.as_str() {
            "POST /login/device/code" => json!({
                "device_code": "dev-1", "user_code": "ABCD-1234",
                "verification_uri": "https://github.example/login/device",
                "interval": 0.01, "expires_in": life,
            }),
            "POST /login/oauth/access_token" => {
                let at = polled.fetch_add(1, Ordering::SeqCst).min(polls.len() - 1);
                return (200, polls[at].to_owned());
            }
            _ => json!({
                "token": "copilot-1", "expires_at": 2_000_000,
                "endpoints": {"api": "https://api.copilot.example"},
            }),
        };
        (200, body.to_string())
    })
    .await
}

const PENDING: &str = r#"{"error":"authorization_pending"}"#;
const SLOW: &str = r#"{"error":"slow_down","interval":0.02}"#;
const GRANTED: &str = r#"{"access_token":"github-1","token_type":"bearer","scope":"read:user"}"#;

#[tokio::test]
async fn a_typed_code_logs_in() {
    let server = github(&[PENDING, SLOW, PENDING, GRANTED], 60.0).await;
    let person = Person::default();
    let credential = login(&Client::default(), &settings(&server), &person).await.unwrap();
    assert_eq!(
        credential,
        Credential::Oauth {
            access: Secret::new("copilot-1"),
            refresh: Secret::new("github-1"),
            expires_at: 2_000_000_000 - 300_000,
            account_id: None,
            email: None,
            client_id: Some("client-1".into()),
            extra: [(API_BASE.to_owned(), "https://api.copilot.example".to_owned())].into(),
        }
    );
    let shown = person.0.lock().unwrap().clone();
    assert_eq!(shown, [("https://github.example/login/device".to_owned(), "ABCD-1234".to_owned())]);
    let seen = server.seen();
    assert_eq!(server.count("/access_token"), 4);
    assert_eq!(seen[1].field("device_code").as_deref(), Some("dev-1"));
    assert_eq!(seen[1].field("grant_type").as_deref(), Some(GRANT));
    assert_eq!(seen.last().unwrap().authorization.as_deref(), Some("Bearer github-1"));
}

#[test]
fn asking_is_slower_than_allowed_and_slower_still_when_told_so() {
    let pace = Pace { interval: 5.0, factor: 1.2 };
    assert_eq!(pace.wait(), Duration::from_secs(6));
    let answer = |body| Answer { status: 200, body };
    let slowed = |body| match step(&answer(body), pace) {
        Step::Wait(pace) => pace.wait(),
        other => panic!("{other:?}"),
    };
    assert_eq!(slowed(json!({"error": "authorization_pending"})), Duration::from_secs(6));
    assert_eq!(slowed(json!({"error": "slow_down"})), Duration::from_secs(14));
    assert_eq!(slowed(json!({"error": "slow_down", "interval": 20})), Duration::from_secs(28));
    assert_eq!(slowed(json!({"error": "slow_down", "interval": -3})), Duration::from_secs(14));
}

#[tokio::test]
async fn every_end_of_the_wait_has_its_name() {
    for (polls, life, expected) in [
        (&[PENDING, r#"{"error":"access_denied"}"#][..], 60.0, LoginError::Denied),
        (&[r#"{"error":"expired_token"}"#], 60.0, LoginError::TimedOut),
        (&[PENDING], 0.1, LoginError::TimedOut),
        (
            &[r#"{"error":"incorrect_client_credentials"}"#],
            60.0,
            LoginError::Refused { status: 200, reason: "incorrect_client_credentials".into() },
        ),
        (
            &["<html>sign in</html>"],
            60.0,
            LoginError::Unexpected { status: 200, reason: "status 200, no JSON".into() },
        ),
    ] {
        let server = github(polls, life).await;
        let error = login(&Client::default(), &settings(&server), &Person::default()).await.unwrap_err();
        assert_eq!(error, expected);
        assert_eq!(server.count("/v2/token"), 0);
    }
}

#[tokio::test]
async fn an_account_without_the_service_is_refused_by_name() {
    let server = Server::start(|request| match request.line.as_str() {
        "GET /copilot_internal/v2/token" => (403, json!({"message": "no access"}).to_string()),
        "POST /login/oauth/access_token" => (200, GRANTED.to_owned()),
        _ => (
            200,
            json!({"device_code": "d", "user_code": "U", "verification_uri": "https://x", "interval": 0.01})
                .to_string(),
        ),
    })
    .await;
    let error = login(&Client::default(), &settings(&server), &Person::default()).await.unwrap_err();
    assert_eq!(error, LoginError::Refused { status: 403, reason: "status 403".into() });
}

#[tokio::test]
async fn what_would_write_to_the_terminal_is_not_shown() {
    let server = Server::start(|_| {
        let body = json!({"device_code": "d", "user_code": "\u{1b}[2J", "verification_uri": "https://x"});
        (200, body.to_string())
    })
    .await;
    let person = Person::default();
    assert!(login(&Client::default(), &settings(&server), &person).await.is_err());
    assert!(person.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_network_that_is_down_and_a_missing_client_are_named() {
    let mut settings = Settings { client_id: Some("c".into()), ..Settings::default() };
    settings.endpoints.device_code = format!("http://127.0.0.1:{}/x", closed_port().await);
    let error = login(&Client::default(), &settings, &Person::default()).await.unwrap_err();
    assert!(matches!(error, LoginError::Net(_)), "{error}");
    settings.client_id = Some(String::new());
    let error = login(&Client::default(), &settings, &Person::default()).await.unwrap_err();
    assert_eq!(error, LoginError::NoClientId { provider: PROVIDER });
}

#[tokio::test]
async fn a_refresh_fetches_a_new_token_and_keeps_the_rest() {
    let server = github(&[GRANTED], 60.0).await;
    let old = Credential::Oauth {
        access: Secret::new("old"),
        refresh: Secret::new("github-9"),
        expires_at: 1,
        account_id: Some("me".into()),
        email: Some("a@b.c".into()),
        client_id: Some("c".into()),
        extra: [("projectId".to_owned(), "p".to_owned())].into(),
    };
    let new = refresh(&Client::default(), &settings(&server), &old).await.unwrap();
    let Credential::Oauth { access, refresh, account_id, email, extra, .. } = new else { panic!("a login") };
    assert_eq!((access, refresh), (Secret::new("copilot-1"), Secret::new("github-9")));
    assert_eq!((account_id.as_deref(), email.as_deref()), (Some("me"), Some("a@b.c")));
    assert_eq!(extra.len(), 2);
    assert_eq!(server.seen()[0].authorization.as_deref(), Some("Bearer github-9"));
}

#[test]
fn an_enterprise_has_its_own_addresses() {
    assert_eq!(domain_of("https://ghe.example/login"), "ghe.example");
    let endpoints = Endpoints::of(domain_of("ghe.example"));
    assert_eq!(endpoints.device_code, "https://ghe.example/login/device/code");
    assert_eq!(endpoints.exchange, "https://api.ghe.example/copilot_internal/v2/token");
}

#[test]
fn the_token_names_the_server_where_the_answer_does_not() {
    assert_eq!(
        base_in("tid=1;proxy-ep=proxy.acme.githubcopilot.com;exp=2").as_deref(),
        Some("https://api.acme.githubcopilot.com")
    );
    assert_eq!(base_in("proxy-ep=other.example.com").as_deref(), Some("https://other.example.com"));
    for token in ["tid=1;exp=2", "proxy-ep=evil.example/path?", "proxy-ep=user@evil.example", "proxy-ep="] {
        assert_eq!(base_in(token), None, "{token}");
    }
}
