//! The engine on a real SQLite home: turns, deadlines and transcript files.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod transcripts;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{Answer, Ask, Engine, EngineError, Home};
use tidegate_policy::Principal;
use tidegate_protocol::{Limits, ModelRef, RunSpec, Scope, SessionKey};
use tidegate_runtime::{Shutdown, SystemClock};
use tidegate_storage::SessionChoice;
use tidegate_testkit::stores::{Location, OpenStore};

async fn start(root: &Path) -> Engine {
    let home = Home::at(root);
    let lock = home.lock(Duration::from_secs(5), "test").await.unwrap();
    let place = Location::Sqlite { path: home.database() };
    let OpenStore::Sqlite(store) = place.open(1).await.unwrap() else { unreachable!("a SQLite place") };
    Engine::start(lock, Arc::new(store), Arc::new(SystemClock), &scope().tenant).await.unwrap()
}

fn scope() -> Scope {
    Scope::personal("main".parse().unwrap())
}

fn request(session: &str, text: &str) -> Ask {
    Ask {
        principal: Principal::local_owner(scope().tenant),
        key: SessionKey::named(scope(), session),
        session: SessionChoice::Current,
        text: text.to_owned(),
        spec: RunSpec {
            config_revision: String::new(),
            models: vec![ModelRef { provider: "offline".to_owned(), model: "echo".to_owned() }],
            limits: Limits { deadline_ms: 10_000, history: 12 },
        },
        patience: Duration::from_secs(5),
        cancel: Shutdown::new(),
    }
}

async fn ask(engine: &Engine, session: &str, text: &str) -> Result<Answer, EngineError> {
    engine.ask(request(session, text), &mut |_| {}).await
}

fn transcript(root: &Path, answer: &Answer) -> PathBuf {
    Home::at(root).transcripts(&scope().agent).join(format!("{}.jsonl", answer.session_name))
}
