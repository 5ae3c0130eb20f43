//! The engine on a real SQLite home: turns, delivery, supervision, ends in good order, transcript files.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod budgets;
mod closing;
mod deadlines;
mod delivery;
mod image;
mod lanes;
mod models;
mod network;
mod notices;
mod prefix;
mod reuse;
mod session_commands;
mod session_resets;
mod session_tools;
mod subagents;
mod supervision;
mod tools;
mod tools_approvals;
mod tools_running;
mod transcripts;
mod turns;
mod vendor;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{Answer, Drain, Engine, EngineError, Home, LaneLimits, Options, Request, Settings};
use tidegate_policy::Principal;
use tidegate_protocol::{Connector, Limits, ModelRef, ReplyTarget, RunEventBody, RunSpec, Scope, SessionKey};
use tidegate_runtime::{Shutdown, SystemClock};
use tidegate_storage::SessionChoice;
use tidegate_testkit::stores::{Location, OpenStore};

async fn start(root: &Path) -> Engine {
    start_with(root, passing()).await
}

fn passing() -> Options {
    Options { models: Arc::new(network::Models), ..Options::passing(scope().tenant, Settings::default()) }
}

/// With so many places in the main lane.
fn narrow(main: usize) -> Options {
    Options { lanes: LaneLimits { main, ..LaneLimits::default() }, ..passing() }
}

/// An engine that stays, with these connectors.
async fn host(root: &Path, connectors: Vec<Arc<dyn Connector>>) -> Engine {
    start_with(root, Options { stays: true, connectors, ..passing() }).await
}

async fn start_with(root: &Path, options: Options) -> Engine {
    let home = Home::at(root);
    let lock = home.lock(Duration::from_secs(5), "test").await.unwrap();
    let place = Location::Sqlite { path: home.database() };
    let OpenStore::Sqlite(store) = place.open(1).await.unwrap() else { unreachable!("a SQLite place") };
    Engine::start(lock, Arc::new(store), Arc::new(SystemClock), options).await.unwrap()
}

/// Ends it as a command does, so that the home is free.
async fn close(engine: Engine) {
    engine.close(Drain::Everything).await;
}

fn scope() -> Scope {
    Scope::personal("main".parse().unwrap())
}

fn spec(provider: &str, deadline_ms: u64) -> RunSpec {
    RunSpec::new(
        String::new(),
        vec![ModelRef { provider: provider.to_owned(), model: "echo".to_owned() }],
        Limits::new(deadline_ms, 12),
    )
}

fn request(session: &str, text: &str) -> Request {
    Request {
        principal: Principal::local_owner(scope().tenant),
        key: SessionKey::named(scope(), session),
        session: SessionChoice::Current,
        ephemeral: false,
        text: text.to_owned(),
        commands: false,
        client_key: None,
        idempotency: None,
        spec: spec("offline", 10_000),
        reply: ReplyTarget::Caller,
        join: None,
        patience: None,
    }
}

async fn ask(engine: &Engine, session: &str, text: &str) -> Result<Answer, EngineError> {
    put(engine, request(session, text), &mut |_| {}).await
}

async fn put(
    engine: &Engine,
    request: Request,
    emit: &mut (dyn FnMut(&RunEventBody) + Send),
) -> Result<Answer, EngineError> {
    engine.ask(request, &Shutdown::new(), emit).await
}

fn transcript(root: &Path, answer: &Answer) -> PathBuf {
    Home::at(root).transcripts(&scope().agent).join(format!("{}.jsonl", answer.session_name))
}

/// Waits until it is so; a test that waits for what never comes has failed.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
