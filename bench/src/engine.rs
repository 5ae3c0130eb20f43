//! `engine`: durable turns through the whole delivery machine with the offline model, over what the store alone takes
//! for the same two commits in the same run.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_engine::{Drain, Engine, Home, Options, Request, Settings, Wish};
use tidegate_policy::Principal;
use tidegate_protocol::{ReplyTarget, Scope, SessionKey};
use tidegate_runtime::{SystemClock, spawn};
use tidegate_storage::SessionChoice;
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};

use crate::machine::{Cpu, own_cpu_seconds, resident_mb};
use crate::stats::{median, rounded};
use crate::store::{Bench, Fallible};

const ROUNDS: usize = 3;
const PIECE: Duration = Duration::from_secs(2);
const SESSIONS: [usize; 4] = [1, 8, 32, 256];
/// Turns after which memory is looked at again.
const MANY: u64 = 100_000;

pub(crate) async fn run() -> Result<Value, Box<dyn Error>> {
    measure().await.map_err(|error| -> Box<dyn Error> { error })
}

async fn measure() -> Fallible<Value> {
    let folder = crate::machine::bench_folder()?;
    let cpu = Cpu::now();
    let engine = start(&folder.path().join("home")).await?;
    let idle = resident_mb();
    let mut options = SqliteOptions::new(folder.path().join("floor.db"), Mode::ReadWrite);
    options.warm_wal = true;
    let store = Bench::start(SqliteStore::open(&options)?).await?;
    let mut by_sessions = serde_json::Map::new();
    for sessions in SESSIONS {
        let (mut turns, mut floors) = (Vec::new(), Vec::new());
        // Floor and engine take turns, so that a disk in a bad mood is bad for both.
        for round in 0..ROUNDS {
            floors.push(floor(&store, sessions, round).await?);
            turns.push(through_engine(&engine, sessions, round).await?);
        }
        by_sessions.insert(sessions.to_string(), report(&turns, &floors));
    }
    let total = AtomicU64::new(0);
    let before = resident_mb();
    while total.load(Ordering::Relaxed) < MANY {
        let piece = through_engine(&engine, 64, 1000).await?;
        total.fetch_add(piece.turns, Ordering::Relaxed);
    }
    let after = resident_mb();
    engine.close(Drain::Everything).await;
    Ok(json!({
        "bench": "engine", "rounds": ROUNDS, "sessions": by_sessions,
        "memory": {
            "idle_mb": rounded(idle), "before_many_mb": rounded(before),
            "after_many_mb": rounded(after), "many": total.into_inner(),
        },
        "cpu_of_other_processes": rounded(cpu.others_since()),
    }))
}

fn report(turns: &[Piece], floors: &[Piece]) -> Value {
    let middle = |pieces: &[Piece], of: fn(&Piece) -> f64| median(pieces.iter().map(of).collect());
    let ratio = |of: fn(&Piece) -> f64| {
        median(turns.iter().zip(floors).map(|(turn, floor)| of(turn) / of(floor)).collect())
    };
    json!({
        "turns_a_second": rounded(middle(turns, Piece::per_second)),
        "cpu_ms_a_turn": rounded(middle(turns, Piece::cpu_ms)),
        "store_alone_turns_a_second": rounded(middle(floors, Piece::per_second)),
        "store_alone_cpu_ms_a_turn": rounded(middle(floors, Piece::cpu_ms)),
        "turns_a_second_over_store": rounded(ratio(Piece::per_second)),
        "cpu_over_store": rounded(ratio(Piece::cpu_ms)),
    })
}

struct Piece {
    turns: u64,
    seconds: f64,
    cpu: f64,
}

impl Piece {
    fn per_second(&self) -> f64 {
        self.turns as f64 / self.seconds
    }

    fn cpu_ms(&self) -> f64 {
        self.cpu * 1000.0 / self.turns as f64
    }
}

async fn start(root: &Path) -> Fallible<Engine> {
    let home = Home::at(root);
    let lock = home.lock(Duration::ZERO, "bench").await?;
    let mut options = SqliteOptions::new(home.database(), Mode::ReadWrite);
    options.warm_wal = true;
    let store = Arc::new(SqliteStore::open(&options)?);
    let scope = scope()?;
    let options = Options { stays: true, ..Options::passing(scope.tenant, Settings::default()) };
    Ok(Engine::start(lock, store, Arc::new(SystemClock), options).await?)
}

fn scope() -> Fallible<Scope> {
    Ok(Scope::personal("main".parse()?))
}

/// Lets every session do `turn` again and again for a while, and counts.
async fn piece<F, T>(sessions: usize, turn: F) -> Fallible<Piece>
where
    F: Fn(usize) -> T,
    T: Future<Output = Fallible<u64>> + Send + 'static,
{
    let (start, cpu) = (Instant::now(), own_cpu_seconds());
    let tasks: Vec<_> = (0..sessions).map(|session| spawn("bench-session", turn(session))).collect();
    let mut turns = 0;
    for task in tasks {
        turns += task.join().await??;
    }
    Ok(Piece { turns, seconds: start.elapsed().as_secs_f64(), cpu: own_cpu_seconds() - cpu })
}

async fn through_engine(engine: &Engine, sessions: usize, round: usize) -> Fallible<Piece> {
    let scope = scope()?;
    piece(sessions, |session| {
        let (engine, scope) = (engine.clone(), scope.clone());
        async move {
            let until = Instant::now() + PIECE;
            let key = SessionKey::named(scope.clone(), &format!("bench-{sessions}-{round}-{session}"));
            let spec = engine.settings().run_spec(&scope, &Wish::default())?;
            let mut turns = 0;
            while Instant::now() < until {
                let request = Request {
                    principal: Principal::local_owner(scope.tenant.clone()),
                    key: key.clone(),
                    session: SessionChoice::Current,
                    ephemeral: false,
                    text: "What is the tide at the gate this evening, and when does it turn?".to_owned(),
                    client_key: None,
                    idempotency: None,
                    spec: spec.clone(),
                    reply: ReplyTarget::Caller,
                    join: None,
                    commands: false,
                    patience: None,
                };
                let submitted = engine.submit(request).await?;
                submitted.follower.end().await.map_err(|error| error.message)?;
                turns += 1;
            }
            Ok(turns)
        }
    })
    .await
}

/// ACCEPT and FINISH of the same turns with nothing around them.
async fn floor(store: &Arc<Bench>, sessions: usize, round: usize) -> Fallible<Piece> {
    piece(sessions, |session| {
        let store = Arc::clone(store);
        async move {
            let until = Instant::now() + PIECE;
            let key = store.key(&format!("floor-{sessions}-{round}-{session}"));
            let mut turns = 0;
            while Instant::now() < until {
                let lease = store.accept(&key).await?;
                store.finish(&lease).await?;
                turns += 1;
            }
            Ok(turns)
        }
    })
    .await
}
