//! Starting: a new incarnation, everything the last one left behind settled, then the services that keep going.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_models::{BuiltIn, Providers};
use tidegate_protocol::{Connector, RunState, TenantId};
use tidegate_runtime::{Clock, Shutdown, Task, fault};
use tidegate_storage::{Library, Owner, POISON_CRASHES, Recovered, RunFilter, Store, StoreError};
use tidegate_tools::Browsers;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::ballast::Ballast;
use crate::connectors::Supervised;
use crate::deliver::Outlets;
use crate::error::EngineError;
use crate::events::{Bus, Events};
use crate::home::{Home, HomeLock};
use crate::identity::instance_id;
use crate::lanes::LaneLimits;
use crate::live::LiveRuns;
use crate::mirror::Mirroring;
use crate::schedule::Scheduler;
use crate::service::Service;
use crate::services;
use crate::settings::Settings;
use crate::tools::{Reuse, RunLoops, Toolbox, Watchers, browsers, with_engine_tools};
use crate::workspace::Workspaces;

/// How an engine is to work.
pub struct Options {
    /// Whose data this home holds.
    pub tenant: TenantId,
    pub settings: Settings,
    pub models: Arc<dyn Providers>,
    pub connectors: Vec<Arc<dyn Connector>>,
    pub toolbox: Toolbox,
    /// How many runs may be under way at once.
    pub lanes: LaneLimits,
    /// Whether this process stays: then it keeps a ballast, sweeps, and waits for a store that is away.
    pub stays: bool,
    pub retention: Retention,
}

/// How long things are kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Rows of the inbox and the outbox that are settled.
    pub settled: Duration,
    /// How long a part may wait to go out.
    pub outbox: Duration,
    pub ephemeral: Duration,
    /// How long a caller's key is remembered.
    pub idempotency: Duration,
    /// How long a network's message id is: networks deliver again for days.
    pub redelivery: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const HOUR: u64 = 3600;
        Self {
            settled: Duration::from_secs(7 * 24 * HOUR),
            outbox: Duration::from_secs(24 * HOUR),
            ephemeral: Duration::from_secs(24 * HOUR),
            idempotency: Duration::from_secs(24 * HOUR),
            redelivery: Duration::from_secs(7 * 24 * HOUR),
        }
    }
}

impl Options {
    /// For a command that answers one request and goes.
    pub fn passing(tenant: TenantId, settings: Settings) -> Self {
        Self {
            tenant,
            lanes: settings.lanes(),
            settings,
            models: Arc::new(BuiltIn),
            connectors: Vec::new(),
            toolbox: Toolbox::empty(),
            stays: false,
            retention: Retention::default(),
        }
    }
}

/// Waiting runs that are looked at for crashes at a start.
const SUSPECTS: u32 = 1000;

/// The engine of one process. Holding it means holding the home. Clones share it.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// What the parts of the engine share.
pub(crate) struct Core {
    /// Closed before the lock is freed: the next process must find everything written.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lock: HomeLock,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: Owner,
    pub(crate) tenant: TenantId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) retention: Retention,
    pub(crate) stays: bool,
    pub(crate) models: Arc<dyn Providers>,
    pub(crate) connectors: Vec<Arc<Supervised>>,
    pub(crate) live: LiveRuns,
    pub(crate) toolbox: Toolbox,
    /// The browsers that run. They end with the engine.
    pub(crate) browsers: Arc<Browsers>,
    /// What runs beside the engine as long as it does; nothing in a process that goes soon.
    pub(crate) companions: Vec<Arc<Service>>,
    /// Who waits for the answer to a question.
    pub(crate) watchers: Watchers,
    pub(crate) run_loops: RunLoops,
    /// What calls that only look answered a moment ago.
    pub(crate) reuse: Reuse,
    pub(crate) workspaces: Workspaces,
    pub(crate) bus: Bus,
    /// Answers those who speak the Model Context Protocol; made when the first one does.
    pub(crate) mcp: std::sync::OnceLock<tidegate_mcp::McpHttp>,
    pub(crate) scheduler: Scheduler,
    pub(crate) outlets: Outlets,
    pub(crate) mirroring: Mirroring,
    pub(crate) ballast: Arc<Ballast>,
    /// Set first on the way out: nothing new is taken.
    pub(crate) closing: Shutdown,
    /// Set when runs and sends are over: the services end.
    pub(crate) stopped: Shutdown,
    /// Every run and every send under way.
    pub(crate) work: TaskTracker,
    /// Told that an audit row may be unsealed.
    pub(crate) unsealed: tokio::sync::Notify,
    /// Runs that were given back on the way out.
    pub(crate) given_back: AtomicUsize,
    /// The last heartbeat found no store.
    store_away: AtomicBool,
    services: Mutex<Vec<Task<()>>>,
    fatal: watch::Sender<Option<StoreError>>,
    recovered: Recovered,
    notices: Mutex<Vec<Notice>>,
}

/// Something the owner should know although nothing was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A transcript file was not what had been written; it was set aside and made anew.
    TranscriptRebuilt { file: PathBuf, kept: PathBuf },
    /// A transcript file could not be written; it is tried again with every command.
    TranscriptLags { file: PathBuf, cause: String },
}

/// Whether the engine can do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub ready: bool,
    pub problems: Vec<String>,
}

impl Engine {
    /// Begins a new incarnation, recovers, and starts to work.
    pub async fn start(
        lock: HomeLock,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, EngineError> {
        fault::pause("engine.start.locked").await;
        let instance = instance_id(&lock, clock.as_ref())?;
        let owner = store.enlist(instance, clock.now_ms()).await?;
        let recovered = store.recover(&owner, clock.now_ms()).await?;
        fault::pause("engine.start.recovered").await;
        let ballast = Arc::new(Ballast::new(lock.home().ballast()));
        let now = clock.now_ms();
        let connectors =
            options.connectors.into_iter().map(|connector| Arc::new(Supervised::new(connector, now)));
        let settings = Arc::new(options.settings);
        let companions = if options.stays { settings.services(lock.home()) } else { Vec::new() };
        let companions = companions.into_iter().map(|spec| Arc::new(Service::new(spec, now))).collect();
        let core = Arc::new_cyclic(|core| {
            let browsers = browsers(&settings, core);
            Core {
                store,
                lock,
                clock,
                owner,
                tenant: options.tenant,
                settings: Arc::clone(&settings),
                retention: options.retention,
                stays: options.stays,
                models: options.models,
                connectors: connectors.collect(),
                live: LiveRuns::default(),
                toolbox: with_engine_tools(options.toolbox, &settings, core, &browsers),
                browsers,
                companions,
                watchers: Watchers::default(),
                run_loops: RunLoops::default(),
                reuse: Reuse::default(),
                workspaces: Workspaces::default(),
                bus: Bus::new(),
                mcp: std::sync::OnceLock::new(),
                scheduler: Scheduler::new(options.lanes),
                outlets: Outlets::default(),
                mirroring: Mirroring::default(),
                ballast,
                closing: Shutdown::new(),
                stopped: Shutdown::new(),
                work: TaskTracker::new(),
                unsealed: tokio::sync::Notify::new(),
                given_back: AtomicUsize::new(0),
                store_away: AtomicBool::new(false),
                services: Mutex::default(),
                fatal: watch::Sender::new(None),
                recovered,
                notices: Mutex::default(),
            }
        });
        if core.stays {
            core.toolbox.begin();
            core.find_suspects().await?;
        }
        core.flush_transcripts().await?;
        let services = services::start(&core);
        core.services.lock().unwrap_or_else(PoisonError::into_inner).extend(services);
        Ok(Self { core })
    }

    /// Takes what there is to tell.
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.core.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the last incarnation left unfinished, and what became of it.
    pub fn recovered(&self) -> &Recovered {
        &self.core.recovered
    }

    pub fn tenant(&self) -> &TenantId {
        &self.core.tenant
    }

    pub fn home(&self) -> &Home {
        self.core.lock.home()
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.core.settings
    }

    /// What people and programs ask about state.
    pub fn library(&self) -> &dyn Library {
        self.core.store.as_ref()
    }

    pub fn events(&self) -> Events {
        self.core.bus.subscribe()
    }

    pub fn is_closing(&self) -> bool {
        self.core.closing.is_requested()
    }

    pub fn health(&self) -> Health {
        let mut problems = Vec::new();
        if self.core.closing.is_requested() {
            problems.push("shutting down".to_owned());
        }
        // Anybody may ask, so no names of files and hosts.
        if self.core.fatal.borrow().is_some() {
            problems.push("the store failed".to_owned());
        }
        if self.core.store_away.load(Ordering::Relaxed) {
            problems.push("the database does not answer".to_owned());
        }
        if self.core.ballast.is_spent() {
            problems.push("the disk is full".to_owned());
        }
        Health { ready: problems.is_empty(), problems }
    }

    /// Returns once the engine cannot go on: its disk failed, or another process took its place.
    pub async fn failed(&self) -> StoreError {
        let mut fatal = self.core.fatal.subscribe();
        let error = fatal.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        error.unwrap_or(StoreError::StaleFence)
    }
}

impl Core {
    /// Which of the waiting runs crashed so often that they have one try left.
    async fn find_suspects(&self) -> Result<(), EngineError> {
        let queued = RunFilter { state: Some(RunState::Queued), limit: SUSPECTS, ..RunFilter::default() };
        for row in self.store.runs(&self.tenant, queued).await? {
            if row.attempt + 1 >= POISON_CRASHES {
                let lane = row.spec.lane(&row.key);
                self.scheduler.suspect(row.key, lane);
            }
        }
        Ok(())
    }

    pub(crate) fn note_store(&self, answers: bool) {
        self.store_away.store(!answers, Ordering::Relaxed);
    }

    /// Off the asynchronous threads: it writes and syncs some megabytes.
    pub(crate) async fn lay_ballast(&self) {
        let ballast = Arc::clone(&self.ballast);
        let _ = tidegate_runtime::spawn_blocking("ballast", move || ballast.lay()).join().await;
    }

    pub(crate) fn notice(&self, notice: Notice) {
        if self.stays {
            // Nobody takes them here; the log is where the owner of a process that stays looks.
            return match notice {
                Notice::TranscriptRebuilt { file, kept } => {
                    tracing::warn!(file = %file.display(), kept = %kept.display(), "a damaged transcript was made anew");
                }
                Notice::TranscriptLags { file, cause } => {
                    tracing::warn!(file = %file.display(), cause, "a transcript could not be written");
                }
            };
        }
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// Looks at what the store answered: some errors end the engine.
    pub(crate) fn watch(&self, error: &StoreError) {
        if error.is_fatal() {
            self.fail(error.clone());
        }
        if let StoreError::Full(_) = error {
            self.ballast.note_full();
        }
    }

    /// Nothing more can be done here.
    pub(crate) fn fail(&self, error: StoreError) {
        if self.fatal.borrow().is_none() {
            tracing::error!(%error, "the engine cannot go on");
            self.fatal.send_replace(Some(error));
            self.closing.request();
        }
    }

    /// Another process took our place: nothing of ours can be written any more.
    pub(crate) fn superseded(&self) {
        if self.fatal.borrow().is_none() {
            tracing::error!("another process took this one's place");
            self.fatal.send_replace(Some(StoreError::StaleFence));
            self.closing.request();
        }
    }

    pub(crate) fn take_services(&self) -> Vec<Task<()>> {
        std::mem::take(&mut self.services.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
