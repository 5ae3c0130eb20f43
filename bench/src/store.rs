//! `store`: what the storage verbs cost on SQLite, as ratios to one append and sync on the same disk.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_policy::Principal;
use tidegate_protocol::{
    Block, Compaction, EntryBody, FileTrail, Limits, Message, ModelRef, Origin, ReplyTarget, RunSpec, Scope,
    SessionKey, StopReason, TenantId, Usage,
};
use tidegate_runtime::{SystemClock, new_id, spawn};
use tidegate_storage::{
    Accept, Admission, ContextLimits, Ending, Finish, Instances as _, Journal as _, Lease, Library as _,
    Mirror as _, NewCompaction, NewEntry, NewRun, NewSession, Owner, RunLookup, Runs as _, SessionChoice,
};
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};

use crate::machine::Cpu;
use crate::stats::{median, p50_us, rounded};

pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 5;
const OPERATIONS: usize = 400;
const WRITERS: usize = 64;
const STORM: Duration = Duration::from_secs(2);

/// Runs everything and reports.
pub(crate) async fn run() -> Result<Value, Box<dyn Error>> {
    let folder = crate::machine::bench_folder()?;
    let cpu = Cpu::now();
    let path = folder.path().join("tidegate.db");
    let mut options = SqliteOptions::new(&path, Mode::ReadWrite);
    options.warm_wal = true;
    let bench = Bench::start(SqliteStore::open(&options)?).await.map_err(plain)?;
    let mut wal = WalSize::watch(&path);
    let rounds = rounds(&bench, folder.path()).await.map_err(plain)?;
    let writes = json!({
        "accept_p50_over_floor": goal(median(rounds.iter().map(|round| round.accept / round.floor).collect()), "at most", 2.5),
        "finish_p50_over_floor": rounded(median(rounds.iter().map(|round| round.finish / round.floor).collect())),
        "floor_p50_us": rounded(median(rounds.iter().map(|round| round.floor).collect())),
        "accept_p50_us": rounded(median(rounds.iter().map(|round| round.accept).collect())),
        "operations_a_sync_64_writers": goal(median(rounds.iter().map(|round| round.storm.per_commit).collect()), "at least", 25.0),
        "operations_a_second_64_over_1": goal(median(rounds.iter().map(|round| round.storm.per_second / round.single_per_second).collect()), "at least", 4.0),
        "operations_a_second_64": rounded(median(rounds.iter().map(|round| round.storm.per_second).collect())),
        "operations_a_second_1": rounded(median(rounds.iter().map(|round| round.single_per_second).collect())),
        "wal_largest_mb": goal(wal.largest_mb(), "at most", 40.0),
    });
    let reads = reads(&bench).await.map_err(plain)?;
    Ok(json!({
        "bench": "store", "rounds": ROUNDS, "writes": writes, "reads": reads,
        "cpu_of_other_processes": rounded(cpu.others_since()),
    }))
}

fn plain(error: Box<dyn Error + Send + Sync>) -> Box<dyn Error> {
    error
}

pub(crate) fn goal(value: f64, relation: &str, bound: f64) -> Value {
    let met = if relation == "at most" { value <= bound } else { value >= bound };
    json!({ "value": rounded(value), "goal": format!("{relation} {bound}"), "met": met })
}

struct Round {
    floor: f64,
    accept: f64,
    finish: f64,
    single_per_second: f64,
    storm: Storm,
}

struct Storm {
    per_commit: f64,
    per_second: f64,
}

/// Floor and operation take turns inside each round, so that a disk in a bad mood is bad for both.
async fn rounds(bench: &Arc<Bench>, folder: &Path) -> Fallible<Vec<Round>> {
    let mut floor_file = OpenOptions::new().create(true).append(true).open(folder.join("floor"))?;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let (mut floor, mut accept, mut finish) = (Vec::new(), Vec::new(), Vec::new());
        for operation in 0..OPERATIONS {
            floor.push(append_and_sync(&mut floor_file)?);
            let key = bench.key(&format!("single-{}", operation % 50));
            let start = Instant::now();
            let lease = bench.accept(&key).await?;
            accept.push(start.elapsed());
            let start = Instant::now();
            bench.finish(&lease).await?;
            finish.push(start.elapsed());
        }
        let turns: Duration = accept.iter().chain(&finish).sum();
        rounds.push(Round {
            floor: p50_us(&floor),
            accept: p50_us(&accept),
            finish: p50_us(&finish),
            single_per_second: (accept.len() + finish.len()) as f64 / turns.as_secs_f64(),
            storm: bench.storm(round).await?,
        });
    }
    Ok(rounds)
}

fn append_and_sync(file: &mut File) -> Fallible<Duration> {
    let block = [7_u8; 4096];
    let start = Instant::now();
    file.write_all(&block)?;
    file.sync_data()?;
    Ok(start.elapsed())
}

/// The reads a turn needs must not grow with the session.
async fn reads(bench: &Arc<Bench>) -> Fallible<Value> {
    let mut leases = Vec::new();
    for entries in [10_usize, 1_000, 50_000] {
        let key = bench.key(&format!("long-{entries}"));
        bench.fill(&key, entries).await?;
        leases.push((entries, bench.accept(&key).await?));
    }
    let mut samples = vec![Vec::new(); leases.len()];
    for _ in 0..ROUNDS * 100 {
        for ((_, lease), samples) in leases.iter().zip(&mut samples) {
            let start = Instant::now();
            bench.read_a_turn(lease).await?;
            samples.push(start.elapsed());
        }
    }
    let medians: Vec<f64> = samples.iter().map(|samples| p50_us(samples)).collect();
    let ratio =
        medians.iter().copied().fold(f64::MIN, f64::max) / medians.iter().copied().fold(f64::MAX, f64::min);
    let by_size: serde_json::Map<_, _> = leases
        .iter()
        .zip(&medians)
        .map(|((entries, _), us)| (entries.to_string(), json!(rounded(*us))))
        .collect();
    Ok(json!({ "turn_p50_us_by_entries": by_size, "slowest_over_fastest": goal(ratio, "at most", 2.0) }))
}

pub(crate) struct Bench {
    store: SqliteStore,
    owner: Owner,
    principal: Principal,
    scope: Scope,
}

impl Bench {
    pub(crate) async fn start(store: SqliteStore) -> Fallible<Arc<Self>> {
        let owner = store.enlist(new_id(&SystemClock)?, 0).await?;
        let scope = Scope::personal("main".parse()?);
        let tenant: TenantId = scope.tenant.clone();
        Ok(Arc::new(Self { store, owner, principal: Principal::local_owner(tenant), scope }))
    }

    pub(crate) fn key(&self, name: &str) -> SessionKey {
        SessionKey::named(self.scope.clone(), name)
    }

    pub(crate) async fn accept(&self, key: &SessionKey) -> Fallible<Lease> {
        let accepted = self
            .store
            .accept(Accept {
                principal: self.principal.clone(),
                key: key.clone(),
                run: NewRun {
                    id: new_id(&SystemClock)?,
                    client_key: None,
                    spec: RunSpec::new(
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                        vec![ModelRef { provider: "offline".to_owned(), model: "echo".to_owned() }],
                        Limits::new(600_000, 12),
                    ),
                    input: Message::user(
                        "What is the tide at the gate this evening, and when does it turn?",
                        0,
                    ),
                    reply: ReplyTarget::Caller,
                    join: None,
                    parent: None,
                },
                session: SessionChoice::Current,
                new_session: NewSession { id: new_id(&SystemClock)?, alias: None },
                inbound: None,
                idempotency: None,
                reservation: None,
                ephemeral: false,
                owner: self.owner,
                claim: true,
                now: 0,
            })
            .await?;
        match accepted.admission {
            Admission::Claimed(lease) => Ok(lease),
            other => Err(format!("expected an idle session, got {other:?}").into()),
        }
    }

    pub(crate) async fn finish(&self, lease: &Lease) -> Fallible<()> {
        self.finish_with(lease, 2).await
    }

    async fn finish_with(&self, lease: &Lease, entries: usize) -> Fallible<()> {
        let entries = (0..entries)
            .map(|at| Ok(NewEntry { id: new_id(&SystemClock)?, body: EntryBody::Message(message(at)) }))
            .collect::<Fallible<Vec<_>>>()?;
        let finish = Finish {
            ending: Ending::Completed(origin()),
            entries,
            calls: Vec::new(),
            parts: Vec::new(),
            announce: None,
            closes_session: false,
            context_tokens: None,
            principal: self.principal.clone(),
            now: 0,
        };
        self.store.finish(lease, finish).await?;
        Ok(())
    }

    /// Puts that many entries into an idle conversation.
    pub(crate) async fn fill(&self, key: &SessionKey, entries: usize) -> Fallible<()> {
        let mut left = entries;
        while left > 0 {
            let lease = self.accept(key).await?;
            let batch = left.min(1_000);
            self.finish_with(&lease, batch).await?;
            left -= batch;
        }
        Ok(())
    }

    /// Sums up all but the last `kept` of the conversation's entries.
    pub(crate) async fn sum_up(&self, key: &SessionKey, entries: usize, kept: usize) -> Fallible<()> {
        let lease = self.accept(key).await?;
        let compaction = Compaction {
            summary: "They talked about the tides at the gate.".to_owned(),
            first_kept_seq: i64::try_from(entries.saturating_sub(kept))? + 1,
            tokens_before: 0,
            mechanical: false,
            files: FileTrail::default(),
        };
        let id = new_id(&SystemClock)?;
        self.store.compact(&lease, NewCompaction { id, compaction, calls: Vec::new(), now: 0 }).await?;
        self.finish(&lease).await
    }

    /// What one turn reads from the store, from its context to its answer.
    async fn read_a_turn(&self, lease: &Lease) -> Fallible<()> {
        let tenant = lease.tenant();
        self.store.context(lease, ContextLimits { entries: 12, ..ContextLimits::NONE }).await?;
        self.store.run(tenant, &RunLookup::Id(lease.run)).await?;
        self.store.mirror_backlog(tenant, 1).await?;
        let log = self.store.session_by_name(tenant, &lease.session.to_string()).await?;
        let head = log.map_or(0, |log| log.head_seq);
        self.store.entries(tenant, lease.session, head - 2, 2).await?;
        Ok(())
    }

    /// Many writers at once, each on its own session.
    async fn storm(self: &Arc<Self>, round: usize) -> Fallible<Storm> {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let before = self.store.commits_and_verbs();
        let start = Instant::now();
        let mut tasks = Vec::new();
        for writer in 0..WRITERS {
            let (bench, stop, done) = (Arc::clone(self), Arc::clone(&stop), Arc::clone(&done));
            tasks.push(spawn("bench-writer", async move {
                let key = bench.key(&format!("storm-{round}-{writer}"));
                while !stop.load(Ordering::Relaxed) {
                    let lease = bench.accept(&key).await?;
                    bench.finish(&lease).await?;
                    done.fetch_add(2, Ordering::Relaxed);
                }
                Fallible::Ok(())
            }));
        }
        tokio::time::sleep(STORM).await;
        let elapsed = start.elapsed();
        let written = done.load(Ordering::Relaxed);
        let after = self.store.commits_and_verbs();
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.join().await??;
        }
        let commits = after.0 - before.0;
        Ok(Storm {
            per_commit: (after.1 - before.1) as f64 / commits.max(1) as f64,
            per_second: written as f64 / elapsed.as_secs_f64(),
        })
    }
}

fn message(at: usize) -> Message {
    if at.is_multiple_of(2) {
        return Message::user("What is the tide at the gate this evening, and when does it turn?", 0);
    }
    Message::Assistant {
        content: vec![Block::text("High water is at 19:40; it turns about ten minutes later. ".repeat(4))],
        origin: origin(),
        usage: Usage { input: 100, output: 50, ..Usage::default() },
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: 0,
    }
}

fn origin() -> Origin {
    Origin {
        api: "offline".to_owned(),
        provider: "offline".to_owned(),
        model: "echo".to_owned(),
        profile_id: None,
        route: "echo".to_owned(),
        stage: "adapter.stub.echo".to_owned(),
    }
}

/// The WAL never shrinks while it is open, so its size now is the largest it ever had.
struct WalSize {
    path: std::path::PathBuf,
}

impl WalSize {
    fn watch(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into() }
    }

    fn largest_mb(&mut self) -> f64 {
        std::fs::metadata(&self.path).map_or(f64::NAN, |file| file.len() as f64 / 1e6)
    }
}
