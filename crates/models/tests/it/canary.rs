//! Keys, tokens and secret headers are in nothing that can be seen: no event, no failure, no record, no line of a log at
//! its most talkative, also when a vendor quotes them back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidegate_models::Purpose;
use tidegate_runtime::Clock as _;
use tidegate_secrets::{Credential, Secret};
use tidegate_testkit::model_server::{Kind, Step, Turn};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::faces::{self, Face};
use crate::house::{House, agent, question, reference};

/// Words that look like no key, so that only knowing them can hide them.
const KEY: &str = "canary-key-sings-quietly";
const HEADER: &str = "canary-header-sings-quietly";
const REFRESH: &str = "canary-refresh-sings-quietly";
const GITHUB: &str = "canary-github-sings-quietly";
const COPILOT: &str = "canary-copilot-sings-quietly";

/// Everything that was ever logged, in one text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut self.clone());
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let _ =
            writeln!(self.0.lock().unwrap(), "\n{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A login's token: it names its account, and it sings.
fn access_token() -> String {
    crate::house::account_token("canary-access")
}

async fn house() -> House {
    let house = House::with(|config| {
        let providers = config["models"]["providers"].as_object_mut().unwrap();
        for (name, provider) in providers {
            provider["headers"] = json!({"x-own": HEADER});
            let key = if name == "openai-codex" { Value::Null } else { json!(KEY) };
            provider["apiKey"] = key;
        }
        providers_of(config)["github-copilot"]["apiKey"] = Value::Null;
        config["models"]["retries"] = 1.into();
    })
    .await;
    house.set("GH_TOKEN", GITHUB);
    let login = Credential::Oauth {
        access: Secret::new(access_token()),
        refresh: Secret::new(REFRESH),
        expires_at: house.clock.now_ms() + 3_600_000,
        account_id: Some("account-0001".into()),
        email: None,
        client_id: Some("ours".into()),
        extra: BTreeMap::new(),
    };
    house.store("openai-codex/me", login);
    house
}

fn providers_of(config: &mut Value) -> &mut Value {
    &mut config["models"]["providers"]
}

/// What a vendor says that quotes what it was sent.
fn quoting(sent: &[&str]) -> Value {
    let message = format!("Incorrect credentials: {}", sent.join(", "));
    json!({
        "error": {"message": message, "type": "authentication_error"}, "message": message, "detail": message,
        "error_description": message,
    })
}

/// What this provider is sent: Copilot's token is the one its exchange is made to give.
fn sent_to(face: Face) -> Vec<String> {
    let credential = match face.provider {
        "openai-codex" => access_token(),
        "github-copilot" => COPILOT.to_owned(),
        _ => KEY.to_owned(),
    };
    vec![credential, HEADER.to_owned()]
}

fn sings(text: &str) -> Option<&str> {
    let access = access_token();
    let found = text.find("sings-quietly").or_else(|| text.find(&access));
    found.map(|at| &text[at.saturating_sub(60)..(at + 20).min(text.len())])
}

/// Everything that one run of each kind shows.
async fn seen(face: Face) -> String {
    let mut seen = String::new();
    let sent = sent_to(face);
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    let quoting = || quoting(&sent);
    let inside = match face.api {
        "ollama" => format!("{}\n", json!({"error": quoting()["message"]})),
        _ => format!("event: error\ndata: {}\n\n", quoting()),
    };
    let turns = [
        Turn::say("Noon."),
        Turn::json(401, quoting()),
        Turn::json(429, quoting()),
        Turn::json(500, quoting()),
        Turn::json(400, quoting()),
        Turn::say("Half").then(Step::Raw(inside.into_bytes())),
        Turn::say("Half").then(Step::Reset),
        Turn::refuse(Kind::Auth),
    ];
    for turn in turns {
        let house = house().await;
        house.server.always_for(face.model, turn);
        let token = json!({
            "token": COPILOT, "expires_at": house.clock.now_ms() / 1000 + 1500,
            "endpoints": {"api": house.server.base_url()},
        });
        house.server.always_for("/copilot_internal/v2/token", Turn::json(200, token));
        let heard = house.ask(&[&face.reference()], question("When?")).await;
        let _ = write!(seen, "{heard:?} {:?} ", house.ledger.take());
        if let Err(failure) = &heard.end {
            let _ = write!(seen, "{failure} {:?} ", failure.body());
        }
        let _ = write!(seen, "{:?} ", house.registry.catalogue());
        let _ = write!(seen, "{:?} ", house.registry.candidates(face.provider));
        for secret in &sent {
            let was_sent = |value: &String| value.contains(secret);
            let there = house.asked().iter().any(|request| request.headers.values().any(was_sent));
            assert!(there, "{secret} was really sent");
        }
    }
    seen
}

/// Sets what everything is logged to, so it is the only test here that does.
#[tokio::test]
async fn no_secret_is_ever_shown() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).expect("nobody else listens");
    for face in faces::ALL {
        let seen = seen(face).await;
        assert_eq!(sings(&seen), None, "{}", face.api);
    }
    embeddings_show_nothing().await;
    refused_sign_ins_show_nothing().await;
    let logged = log.0.lock().unwrap().clone();
    assert!(logged.contains("a model cannot be used"), "the log was listened to: {logged:.400}");
    assert_eq!(sings(&logged), None);
}

async fn embeddings_show_nothing() {
    let house = house().await;
    house.server.always_for("text-embedding-3-small", Turn::json(401, quoting(&[KEY, HEADER])));
    let model = reference("openai/text-embedding-3-small");
    let texts = ["tide".to_owned()];
    let failure =
        house.registry.embed(&agent(), &model, &texts, Purpose::Query, &house.ledger).await.unwrap_err();
    let seen = format!("{failure} {failure:?} {:?}", house.ledger.take());
    assert_eq!(sings(&seen), None);
}

async fn refused_sign_ins_show_nothing() {
    for path in ["/oauth/token", "/copilot_internal/v2/token"] {
        for status in [400, 401, 500] {
            let house = house().await;
            house.server.always_for(path, Turn::json(status, quoting(&[REFRESH, GITHUB])));
            house.server.always(Turn::refuse(Kind::Auth));
            let model = if path == "/oauth/token" { faces::CODEX } else { faces::COPILOT_GPT };
            let heard = house.ask(&[&model.reference()], question("When?")).await;
            let seen = format!("{heard:?} {}", heard.failure());
            assert_eq!(sings(&seen), None, "{path} {status}");
        }
    }
}
