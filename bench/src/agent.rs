//! `agent`: whole turns of long conversations over those of short ones, at an equal window, with a model that answers at
//! once and a real store.
//!
//! A window stays equal in two ways, and both are measured: by a limit of turns, and by a summary that the context
//! begins with. What the model was really shown is counted, so that unequal windows cannot pass for equal ones.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_engine::{Drain, Engine, Home, Options, Request, Settings, Toolbox, Wish};
use tidegate_models::testing::body;
use tidegate_models::{Api, BuiltIn, CannotSpeak, Ledger, Model, ModelStream, Providers};
use tidegate_policy::Principal;
use tidegate_protocol::{AgentId, ReplyTarget, RunSpec, Scope, SessionKey};
use tidegate_runtime::SystemClock;
use tidegate_storage::{Mirror as _, SessionChoice};
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};
use tidegate_tools::{Registry, WebSettings, basic_tools, file_tools, web_tools};

use crate::machine::{Cpu, forget_peak, peak_mb, resident_mb};
use crate::stats::{p50_us, rounded};
use crate::store::{Bench, Fallible, goal};

/// Turns of the past that a request holds.
const WINDOW: u32 = 40;
/// Conversations of each length, and turns that are timed in each.
const SESSIONS: usize = 30;
const TURNS: usize = 5;
/// Timed turns of the two very long and not so long conversations.
const LONG_TURNS: usize = 200;
/// Turns over which memory may not grow.
const MANY: usize = 500;
/// More than the noise of an allocator, less than the log of the conversation.
const MOST_GROWTH_MB: f64 = 16.0;
/// What the first turn of a very long conversation may take more than that of a short one: the noise of an allocator. All
/// its lines would be ten times that.
const MOST_PEAK_MB: f64 = 4.0;

pub(crate) async fn run() -> Result<Value, Box<dyn Error>> {
    measure().await.map_err(|error| -> Box<dyn Error> { error })
}

/// How a window is kept equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    ByTurns,
    BySummary,
}

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Self::ByTurns => "by_turns",
            Self::BySummary => "by_summary",
        }
    }

    /// The turns that a request may hold at the most.
    fn history(self) -> u32 {
        match self {
            Self::ByTurns => WINDOW,
            Self::BySummary => u32::MAX,
        }
    }
}

async fn measure() -> Fallible<Value> {
    let folder = crate::machine::bench_folder()?;
    let cpu = Cpu::now();
    let root = folder.path().join("home");
    let world = World::start(&root).await?;
    let hi = world.hi().await?;
    // First: what an allocator kept from other work would hide what this takes.
    let memory = world.memory().await?;
    let mut reports = serde_json::Map::new();
    for kept in [Kept::ByTurns, Kept::BySummary] {
        let turns = world.compare(kept, SESSIONS, TURNS, (2 * 49, 2 * 499), 1.05).await?;
        let entries = world.compare(kept, 1, LONG_TURNS, (500, 50_000), 1.1).await?;
        reports.insert(
            kept.name().to_owned(),
            json!({ "turn_500_over_turn_50": turns, "50000_entries_over_500": entries }),
        );
    }
    world.engine.close(Drain::Everything).await;
    Ok(json!({
        "bench": "agent", "window_turns": WINDOW, "windows": reports, "memory": memory, "hi": hi,
        "cpu_of_other_processes": rounded(cpu.others_since()),
    }))
}

/// The offline model, and what it was last asked.
#[derive(Clone, Default)]
struct Overheard {
    last: Arc<Mutex<Option<tidegate_models::Request>>>,
}

impl Overheard {
    fn take(&self) -> Fallible<tidegate_models::Request> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.ok_or_else(|| "the model was not asked".into())
    }
}

#[async_trait]
impl Providers for Overheard {
    async fn ready(&self, spec: &RunSpec) -> Result<(), CannotSpeak> {
        BuiltIn.ready(spec).await
    }

    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        let model = BuiltIn.open(agent, spec, ledger)?;
        Ok(Arc::new(Listening { model, overheard: self.clone() }))
    }
}

struct Listening {
    model: Arc<dyn Model>,
    overheard: Overheard,
}

impl Model for Listening {
    fn stream(&self, request: tidegate_models::Request) -> ModelStream {
        let mut last = self.overheard.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(request.clone());
        drop(last);
        self.model.stream(request)
    }
}

struct World {
    engine: Engine,
    store: Arc<SqliteStore>,
    /// Fills conversations without a model.
    filler: Arc<Bench>,
    overheard: Overheard,
    scope: Scope,
}

impl World {
    async fn start(root: &Path) -> Fallible<Self> {
        let home = Home::at(root);
        let lock = home.lock(Duration::ZERO, "bench").await?;
        let mut options = SqliteOptions::new(home.database(), Mode::ReadWrite);
        options.warm_wal = true;
        let store = Arc::new(SqliteStore::open(&options)?);
        let filler = SqliteStore::open(&options)?;
        let scope = Scope::personal("main".parse()?);
        let overheard = Overheard::default();
        let options = Options {
            stays: true,
            models: Arc::new(overheard.clone()),
            toolbox: toolbox()?,
            ..Options::passing(scope.tenant.clone(), Settings::default())
        };
        let engine =
            Engine::start(lock, Arc::<SqliteStore>::clone(&store), Arc::new(SystemClock), options).await?;
        // After the engine, which ends whatever was there before it.
        let filler = Bench::start(filler).await?;
        Ok(Self { engine, store, filler, overheard, scope })
    }

    /// One whole turn.
    async fn turn(&self, key: &SessionKey, text: &str, history: Option<u32>) -> Fallible<Duration> {
        let mut spec = self.engine.settings().run_spec(&self.scope, &Wish::default())?;
        if let Some(history) = history {
            spec.limits.history = history;
        }
        let request = Request {
            principal: Principal::local_owner(self.scope.tenant.clone()),
            key: key.clone(),
            session: SessionChoice::Current,
            ephemeral: false,
            text: text.to_owned(),
            commands: false,
            client_key: None,
            idempotency: None,
            spec,
            reply: ReplyTarget::Caller,
            join: None,
            patience: None,
        };
        let start = Instant::now();
        let submitted = self.engine.submit(request).await?;
        submitted.follower.end().await.map_err(|error| error.message)?;
        Ok(start.elapsed())
    }

    /// Short and long conversations take turns, so that a disk in a bad mood is bad for both.
    async fn compare(
        &self,
        kept: Kept,
        sessions: usize,
        turns: usize,
        (short, long): (usize, usize),
        bound: f64,
    ) -> Fallible<Value> {
        let mut keys = Vec::new();
        for entries in [short, long] {
            for session in 0..sessions {
                let key = self.filler.key(&format!("{}-{sessions}-{entries}-{session}", kept.name()));
                self.filler.fill(&key, entries).await?;
                if kept == Kept::BySummary {
                    self.filler.sum_up(&key, entries, 2 * WINDOW as usize).await?;
                }
                // Not timed: what is read for the first time is read from the disk.
                self.turn(&key, QUESTION, Some(kept.history())).await?;
                keys.push((entries, key));
            }
        }
        self.settle().await?;
        let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
        let (mut shown_short, mut shown_long) = (0, 0);
        for _ in 0..turns {
            for (short_key, long_key) in keys.iter().take(sessions).zip(keys.iter().skip(sessions)) {
                of_short.push(self.turn(&short_key.1, QUESTION, Some(kept.history())).await?);
                shown_short = self.overheard.take()?.messages.len();
                of_long.push(self.turn(&long_key.1, QUESTION, Some(kept.history())).await?);
                shown_long = self.overheard.take()?.messages.len();
            }
        }
        if shown_short != shown_long {
            return Err(format!("the windows are not equal: {shown_short} and {shown_long} messages").into());
        }
        let (short_us, long_us) = (p50_us(&of_short), p50_us(&of_long));
        Ok(json!({
            "p50_ratio": goal(long_us / short_us, "at most", bound),
            "p50_us": [rounded(short_us), rounded(long_us)],
            "samples_each": of_short.len(),
            "messages_shown": shown_short,
        }))
    }

    /// Waits until the transcripts are written: they are no part of a turn.
    async fn settle(&self) -> Fallible<()> {
        let until = Instant::now() + Duration::from_mins(2);
        while !self.store.mirror_backlog(&self.scope.tenant, 1).await?.is_empty() {
            if Instant::now() > until {
                return Err("the transcripts are not written after two minutes".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The most that one turn takes over what was there before it.
    async fn peak(&self, name: &str, entries: usize) -> Fallible<f64> {
        let key = self.filler.key(name);
        self.filler.fill(&key, entries).await?;
        self.filler.sum_up(&key, entries, 2 * WINDOW as usize).await?;
        self.settle().await?;
        let before = resident_mb();
        forget_peak()?;
        self.turn(&key, QUESTION, None).await?;
        Ok(peak_mb() - before)
    }

    /// Conversations much longer than the window, with nothing that limits them but the window: the first turn over one,
    /// and many turns of another.
    async fn memory(&self) -> Fallible<Value> {
        // Whatever is allocated once is there after this one.
        self.peak("memory-warm", 500).await?;
        let (short, long) = (self.peak("memory-short", 500).await?, self.peak("memory-long", 50_000).await?);
        let key = self.filler.key("memory");
        self.filler.fill(&key, 50_000).await?;
        self.turn(&key, QUESTION, None).await?;
        self.settle().await?;
        let before = resident_mb();
        for _ in 0..MANY {
            self.turn(&key, QUESTION, None).await?;
        }
        let after = resident_mb();
        Ok(json!({
            "turns": MANY, "before_mb": rounded(before), "after_mb": rounded(after),
            "growth_mb": goal(after - before, "at most", MOST_GROWTH_MB),
            "one_turn_peak_mb": [rounded(short), rounded(long)],
            "one_turn_peak_of_50000_entries_over_500_mb": goal(long - short, "at most", MOST_PEAK_MB),
        }))
    }

    /// What a model reads for the shortest question.
    async fn hi(&self) -> Fallible<Value> {
        self.turn(&self.filler.key("hi"), "hi", None).await?;
        let request = self.overheard.take()?;
        let formats = [Api::AnthropicMessages, Api::OpenaiCompletions, Api::OpenaiResponses];
        let bytes = formats.into_iter().map(|api| body(api, &request).len()).max().unwrap_or_default();
        Ok(json!({
            "request_bytes": goal(bytes as f64, "at most", 16.0 * 1024.0),
            "tools": request.tools.len(),
            "messages": request.messages.len(),
        }))
    }
}

const QUESTION: &str = "What is the tide at the gate this evening, and when does it turn?";

/// The tools that need no program to be started.
fn toolbox() -> Fallible<Toolbox> {
    let mut registry = Registry::default();
    let tools = basic_tools().into_iter().chain(file_tools()).chain(web_tools(WebSettings::default()));
    for tool in tools {
        registry.add(tool)?;
    }
    Ok(Toolbox { registry: Arc::new(registry), ..Toolbox::empty() })
}
