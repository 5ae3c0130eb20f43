//! The login against a server that plays the vendor, with a browser or a pasting person.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tidegate_runtime::{SystemClock, spawn};

use super::*;
use tidegate_testkit::login_server::{Server, browse, closed_port};

const NOW: i64 = 1_800_000_000_000;

struct Fixed;

impl Clock for Fixed {
    fn now_ms(&self) -> i64 {
        NOW
    }
}

type Answering = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A person who sees an address and then does something with it.
struct Person {
    shown: Mutex<Option<String>>,
    /// What is pasted, made from the address that was shown.
    pastes: Box<Answering>,
    /// What the browser is sent to, made from the address that was shown.
    visits: Box<Answering>,
}

impl Person {
    fn pasting(text: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { shown: Mutex::default(), pastes: Box::new(text), visits: Box::new(|_| None) }
    }

    fn browsing(target: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { shown: Mutex::default(), pastes: Box::new(|_| None), visits: Box::new(target) }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone().unwrap()
    }
}

fn query(url: &str, name: &str) -> String {
    form::value(url.split_once('?').unwrap().1, name).unwrap()
}

fn port_of(url: &str) -> u16 {
    let redirect = query(url, "redirect_uri");
    redirect.strip_prefix("http://localhost:").unwrap().split('/').next().unwrap().parse().unwrap()
}

#[async_trait]
impl LoginUi for Person {
    fn show_url(&self, url: &str) {
        *self.shown.lock().unwrap() = Some(url.to_owned());
        if let Some(target) = (self.visits)(url) {
            let port = port_of(url);
            spawn("browser", async move { browse(port, &target).await });
        }
    }

    fn show_code(&self, _: &str, _: &str) {}

    async fn paste(&self) -> Option<String> {
        (self.pastes)(&self.shown())
    }
}

fn access_token() -> String {
    jwt::token(
        &json!({ "exp": 9, "client_id": "client-of-token", ACCOUNT_CLAIM: {"chatgpt_account_id": "acc-1"} }),
    )
}

fn tokens() -> (u16, String) {
    let identity = jwt::token(&json!({"email": "me@example.org"}));
    let body = json!({
        "access_token": access_token(), "refresh_token": "ref-1", "id_token": identity, "expires_in": 3600,
    });
    (200, body.to_string())
}

fn settings(server: &Server) -> Settings {
    let endpoints = Endpoints { authorize: server.url("/authorize"), token: server.url("/token") };
    Settings { endpoints, client_id: Some("client-1".into()), port: 0, ..Settings::default() }
}

async fn log_in(server: &Server, person: &Person) -> Result<Credential, LoginError> {
    login(&Client::default(), &settings(server), person, &Fixed).await
}

fn callback(code: &'static str) -> impl Fn(&str) -> Option<String> {
    move |url| Some(format!("/auth/callback?code={code}&state={}", query(url, "state")))
}

#[tokio::test]
async fn a_browser_logs_in() {
    let server = Server::start(|_| tokens()).await;
    let person = Person::browsing(callback("c0de"));
    let credential = log_in(&server, &person).await.unwrap();
    assert_eq!(
        credential,
        Credential::Oauth {
            access: Secret::new(access_token()),
            refresh: Secret::new("ref-1"),
            expires_at: NOW + 3_600_000,
            account_id: Some("acc-1".into()),
            email: Some("me@example.org".into()),
            client_id: Some("client-1".into()),
            extra: BTreeMap::new(),
        }
    );
    let url = person.shown();
    assert!(url.starts_with(&server.url("/authorize?response_type=code&client_id=client-1&")), "{url}");
    assert_eq!(query(&url, "code_challenge_method"), "S256");
    let [request] = &server.seen()[..] else { panic!("one request") };
    assert_eq!(request.line, "POST /token");
    assert_eq!(request.field("code").as_deref(), Some("c0de"));
    assert_eq!(request.field("redirect_uri"), Some(query(&url, "redirect_uri")));
    // The verifier that is sent is the one whose digest was shown.
    let digest = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA256,
        request.field("code_verifier").unwrap().as_bytes(),
    );
    let challenge = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest);
    assert_eq!(challenge, query(&url, "code_challenge"));
}

#[tokio::test]
async fn a_pasted_address_logs_in_also_when_the_port_is_taken() {
    let server = Server::start(|_| tokens()).await;
    let taken = Callback::listen(0).await.unwrap();
    let mut settings = settings(&server);
    settings.port = taken.port().unwrap();
    let person = Person::pasting(|url| {
        Some(format!("{}?code=c0de&state={}", query(url, "redirect_uri"), query(url, "state")))
    });
    login(&Client::default(), &settings, &person, &Fixed).await.unwrap();
    assert_eq!(port_of(&person.shown()), settings.port);
    assert_eq!(server.seen()[0].field("code").as_deref(), Some("c0de"));
}

#[tokio::test]
async fn a_pasted_code_of_another_login_is_not_exchanged() {
    let server = Server::start(|_| tokens()).await;
    let person = Person::pasting(|_| Some("c0de#another".into()));
    assert_eq!(log_in(&server, &person).await, Err(LoginError::WrongState));
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn a_declined_login_and_a_silent_person_end_it() {
    let server = Server::start(|_| tokens()).await;
    let person = Person::browsing(|url| {
        Some(format!("/auth/callback?error=access_denied&state={}", query(url, "state")))
    });
    assert_eq!(log_in(&server, &person).await, Err(LoginError::Denied));
    let mut settings = settings(&server);
    settings.patience = Duration::from_millis(50);
    let nobody = Person::pasting(|_| None);
    assert_eq!(login(&Client::default(), &settings, &nobody, &Fixed).await, Err(LoginError::TimedOut));
    let blank = Person::pasting(|_| Some(" \n".into()));
    assert_eq!(log_in(&server, &blank).await, Err(LoginError::NoCode));
}

#[tokio::test]
async fn without_a_client_id_nothing_is_begun() {
    let server = Server::start(|_| tokens()).await;
    let settings = Settings { client_id: None, ..settings(&server) };
    let person = Person::pasting(|_| panic!("nothing to paste"));
    let error = login(&Client::default(), &settings, &person, &Fixed).await.unwrap_err();
    assert_eq!(error, LoginError::NoClientId { provider: PROVIDER });
    assert!(person.shown.lock().unwrap().is_none());
}

#[tokio::test]
async fn every_bad_answer_has_its_name_and_quotes_nothing() {
    let refused = |status, reason: &str| LoginError::Refused { status, reason: reason.into() };
    let cases: [(u16, &str, LoginError); 4] = [
        (400, r#"{"error":"invalid_grant","error_description":"code c0de"}"#, refused(400, "invalid_grant")),
        (500, r#"{"message":"c0de"}"#, refused(500, "status 500")),
        (
            200,
            r#"{"access_token":"x"}"#,
            LoginError::Unexpected { status: 200, reason: "a field is missing".into() },
        ),
        (
            200,
            "<html>c0de</html>",
            LoginError::Unexpected { status: 200, reason: "status 200, no JSON".into() },
        ),
    ];
    for (status, body, expected) in cases {
        let server = Server::start(move |_| (status, body.to_owned())).await;
        let error = log_in(&server, &Person::browsing(callback("c0de"))).await.unwrap_err();
        assert!(!error.to_string().contains("c0de"), "{error}");
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn a_network_that_is_down_is_named() {
    let port = closed_port().await;
    let endpoints = Endpoints { authorize: String::new(), token: format!("http://127.0.0.1:{port}/token") };
    let settings = Settings { endpoints, client_id: Some("c".into()), port: 0, ..Settings::default() };
    let person = Person::browsing(callback("c0de"));
    let error = login(&Client::default(), &settings, &person, &SystemClock).await.unwrap_err();
    assert!(matches!(error, LoginError::Net(_)) && error.is_temporary(), "{error}");
}

#[tokio::test]
async fn a_refresh_keeps_what_is_not_sent_again() {
    let server = Arc::new(Server::start(|_| (200, json!({"access_token": "opaque"}).to_string())).await);
    let mut old = log_in(&Server::start(|_| tokens()).await, &Person::browsing(callback("c"))).await.unwrap();
    let Credential::Oauth { client_id, extra, .. } = &mut old else { panic!("a login") };
    *client_id = None;
    extra.insert("projectId".into(), "p".into());
    let settings = Settings { client_id: None, ..settings(&server) };
    let new = refresh(&Client::default(), &settings, &old, &Fixed).await.unwrap();
    assert_eq!(
        new,
        Credential::Oauth {
            access: Secret::new("opaque"),
            refresh: Secret::new("ref-1"),
            expires_at: NOW + 3_600_000,
            account_id: Some("acc-1".into()),
            email: Some("me@example.org".into()),
            client_id: Some("client-of-token".into()),
            extra: BTreeMap::from([("projectId".to_owned(), "p".to_owned())]),
        }
    );
    let sent = &server.seen()[0];
    assert_eq!(
        (
            sent.field("grant_type").as_deref(),
            sent.field("refresh_token").as_deref(),
            sent.field("client_id").as_deref()
        ),
        (Some("refresh_token"), Some("ref-1"), Some("client-of-token"))
    );
}
