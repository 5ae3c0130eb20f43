//! The engine with models that are called over real HTTP: a played vendor, a home, a store of either kind, and a clock
//! whose hands a test can move.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::{Answer, Engine, Home, Options, Request, Settings, StoredStandings, Submitted, Wish};
use tidegate_models::{Registry, RegistryOptions};
use tidegate_protocol::{Cost, ErrorBody, ReplyTarget, RunEventBody, RunId};
use tidegate_runtime::{Clock, SystemClock};
use tidegate_secrets::StoreOptions;
use tidegate_storage::{BudgetFilter, BudgetUse, Store};
use tidegate_testkit::model_server::ModelServer;
use tidegate_testkit::stores::{Backend, OpenStore, ScratchStore, with_place};

use crate::{request, scope};

/// Each test on SQLite, and on Postgres where a server was named.
macro_rules! on_both_backends {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let backend = tidegate_testkit::stores::Backend::Sqlite;
                crate::vendor::with_bench(backend, async |bench| super::$test(bench).await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let backend = tidegate_testkit::stores::Backend::Postgres;
                crate::vendor::with_bench(backend, async |bench| super::$test(bench).await).await;
            })+
        }
    };
}
pub(crate) use on_both_backends;

/// What a question costs at most: three tokens for `what?`-like texts, and the longest answer of a model.
pub(crate) const LONGEST: u64 = 100;

/// What a token costs, in billionths of a dollar: sent, answered, read from the cache, written to it.
pub(crate) const PRICE: [u64; 4] = [1_000_000, 2_000_000, 100_000, 1_250_000];

/// The machine's time, moved.
#[derive(Default)]
pub(crate) struct Hands(AtomicI64);

impl Hands {
    pub(crate) fn set(&self, now: i64) {
        self.0.store(now - SystemClock.now_ms(), Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Bench<'a> {
    pub(crate) vendor: ModelServer,
    pub(crate) clock: Arc<Hands>,
    store: &'a ScratchStore,
    folder: TempDir,
}

pub(crate) async fn with_bench(backend: Backend, test: impl AsyncFnOnce(&Bench<'_>)) {
    with_place(backend, async |store| {
        let (vendor, clock) = (ModelServer::start().await, Arc::default());
        let bench = Bench { vendor, clock, store, folder: tempfile::tempdir().unwrap() };
        test(&bench).await;
    })
    .await;
}

impl Bench<'_> {
    /// Two vendors at the played server: `anthropic/first` answers, `openai/second` stands in for it.
    pub(crate) fn config(&self, more: &Value) -> Value {
        let base = self.vendor.base_url();
        let cost = json!({"input": 1000, "output": 2000, "cacheRead": 100, "cacheWrite": 1250});
        let model = |id: &str| json!({"id": id, "maxTokens": LONGEST, "reasoning": false, "cost": cost});
        let mut config = json!({
            "agents": {"defaults": {"model": {"primary": "anthropic/first", "fallbacks": ["openai/second"]}}},
            "models": {"retries": 0, "providers": {
                "anthropic": {"baseUrl": base, "apiKey": "first-key", "models": [model("first"), model("other")]},
                "openai": {"baseUrl": format!("{base}/v1"), "apiKey": "second-key",
                    "models": [model("second"), {"id": "unpriced", "maxTokens": LONGEST}]},
            }},
        });
        merge(&mut config, more);
        config
    }

    /// An engine with this on top of [`config`](Self::config).
    pub(crate) async fn engine(&self, more: Value) -> Engine {
        self.engine_with(more, |_| {}).await
    }

    pub(crate) async fn engine_with(&self, more: Value, change: impl FnOnce(&mut Options)) -> Engine {
        let home = Home::at(self.folder.path());
        let lock = home.lock(Duration::from_secs(5), "test").await.unwrap();
        fs::write(home.config_file(), self.config(&more).to_string()).unwrap();
        let file = ConfigFile::new(home.config_file(), home.revisions());
        let loaded = file.load(&Env::of_this_process()).unwrap();
        let store: Arc<dyn Store> = match self.store.location().open(4).await.unwrap() {
            OpenStore::Sqlite(store) => Arc::new(store),
            OpenStore::Postgres(store) => store,
        };
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let registry = RegistryOptions {
            home: home.root().to_owned(),
            credentials: home.credentials(),
            store: StoreOptions::default(),
            environment: Arc::new(|name| (name == "OPENAI_API_KEY").then(|| "environment-key".to_owned())),
            standings: Arc::new(StoredStandings::new(Arc::clone(&store), scope().tenant)),
            clock: Arc::clone(&clock),
        };
        let models = Arc::new(Registry::new(&loaded.config, registry));
        let mut options = Options { models, ..Options::passing(scope().tenant, Settings::new(&loaded)) };
        change(&mut options);
        Engine::start(lock, store, clock, options).await.unwrap()
    }

    /// Asks in a process of its own, so to speak, that is gone the moment the vendor was asked: nothing of it is closed,
    /// nothing it knew is written down.
    pub(crate) fn killed_while_asking(&self, more: &Value, reply: &ReplyTarget) -> RunId {
        let asks = |request| Request { reply: reply.clone(), ..request };
        self.killed_after(more, asks, async || drop(self.vendor.next_request().await))
    }

    /// The same, gone once it is time.
    pub(crate) fn killed_after(
        &self,
        more: &Value,
        asks: impl FnOnce(Request) -> Request + Send,
        is_time: impl AsyncFnOnce() + Send,
    ) -> RunId {
        let lived = || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.unwrap();
            let run = runtime.block_on(async {
                let engine = self.engine(more.clone()).await;
                let run = engine.submit(asks(question(&engine, "main"))).await.unwrap().run;
                is_time().await;
                run
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
            run
        };
        std::thread::scope(|scope| scope.spawn(lived).join().unwrap())
    }

    /// Tokens spent and reserved, and money spent and reserved, of a scope in all its periods of this kind.
    pub(crate) async fn used(&self, engine: &Engine, scope_name: &str, kind: &str) -> BudgetUse {
        let filter = BudgetFilter { limit: 100, ..BudgetFilter::default() };
        let rows = engine.library().budgets(&scope().tenant, filter).await.unwrap();
        let mut of_it = rows
            .iter()
            .filter(|row| row.key.scope.starts_with(scope_name) && row.key.period.starts_with(kind));
        let found = of_it.next().map(|row| row.used).unwrap_or_default();
        assert!(of_it.next().is_none(), "one period: {rows:?}");
        found
    }

    /// How long the runs have worked, as it was written down.
    pub(crate) async fn worked_ms(&self) -> i64 {
        let runs = self.store.rows("runs", "1 = 1").await;
        runs.iter().filter_map(|run| run["worked_ms"].as_i64()).sum()
    }

    /// The model calls that were written down, the oldest first.
    pub(crate) async fn calls(&self) -> Vec<Map<String, Value>> {
        let mut calls = self.store.rows("model_calls", "1 = 1").await;
        calls.sort_by_key(|call| (call["started_at"].as_i64(), call["id"].as_str().map(str::to_owned)));
        calls
    }

    /// Provider, model and outcome of each call.
    pub(crate) async fn outcomes(&self) -> Vec<String> {
        let text = |call: &Map<String, Value>, name: &str| call[name].as_str().unwrap_or_default().to_owned();
        let told = |call: &Map<String, Value>| {
            format!("{}/{} {}", text(call, "provider"), text(call, "model"), text(call, "outcome"))
        };
        self.calls().await.iter().map(told).collect()
    }
}

/// A question to the agent's own models.
pub(crate) fn question(engine: &Engine, session: &str) -> Request {
    wished(engine, session, &Wish::default())
}

pub(crate) fn wished(engine: &Engine, session: &str, wish: &Wish<'_>) -> Request {
    let spec = engine.settings().run_spec(&scope(), wish).unwrap();
    Request { spec, ..request(session, "what?") }
}

/// Asks and waits for the end; what was told on the way.
pub(crate) async fn asked(engine: &Engine, session: &str) -> (Result<Answer, ErrorBody>, Vec<RunEventBody>) {
    let submitted = engine.submit(question(engine, session)).await;
    match submitted {
        Ok(submitted) => followed(submitted).await,
        Err(error) => (Err(error.body()), Vec::new()),
    }
}

pub(crate) async fn followed(mut submitted: Submitted) -> (Result<Answer, ErrorBody>, Vec<RunEventBody>) {
    let mut events = Vec::new();
    while let Some(event) = submitted.follower.next().await {
        events.push(event.body.clone());
    }
    (submitted.follower.end().await, events)
}

/// What this many tokens cost.
pub(crate) fn price(tokens: [u64; 4]) -> Cost {
    Cost(tokens.iter().zip(PRICE).map(|(tokens, price)| tokens * price).sum())
}

/// Objects are joined, anything else is replaced.
pub(crate) fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}
