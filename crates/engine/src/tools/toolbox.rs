//! What an engine was given to work with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use tidegate_net::LeakScan;
use tidegate_policy::{Confinement, Confiner, RunError, Runner};
use tidegate_runtime::SystemClock;
use tidegate_tools::{BrowserTool, Browsers, ProcessLimits, Processes, Registry, Tool, ToolProvider};

use super::browser::browsers;
use super::image::ImageTool;
use super::sessions::session_tools;
use crate::settings::Settings;
use crate::start::Core;

/// The tools there are, and what they run on. Put together by whoever starts the engine.
#[derive(Clone)]
pub struct Toolbox {
    pub registry: Arc<Registry>,
    /// Whoever has tools that come and go.
    pub providers: Vec<Arc<dyn ToolProvider>>,
    /// Finds what starts programs; nothing else does.
    pub confiner: Arc<dyn Confiner>,
    /// Programs that go on after their call returned. They end with the engine.
    pub processes: Arc<Processes>,
    /// What programs find in their environment. Never the gateway's own, which has secrets in it.
    pub env: BTreeMap<String, String>,
    /// Folders no tool may reach, besides the home.
    pub forbidden: Vec<PathBuf>,
    /// Finds secrets in what calls would send out.
    pub leaks: LeakScan,
}

impl Toolbox {
    /// For a process that offers none.
    pub fn empty() -> Self {
        Self {
            registry: Arc::new(Registry::default()),
            providers: Vec::new(),
            confiner: Arc::new(NoRunner),
            processes: Processes::new(ProcessLimits::default(), Arc::new(SystemClock)),
            env: BTreeMap::new(),
            forbidden: Vec::new(),
            leaks: LeakScan::default(),
        }
    }

    /// Every tool there is at this moment.
    pub(crate) fn now(&self) -> Arc<Registry> {
        let provided: Vec<_> = self.providers.iter().flat_map(|provider| provider.tools()).collect();
        if provided.is_empty() {
            return Arc::clone(&self.registry);
        }
        Arc::new(self.registry.with_provided(provided))
    }

    /// Why a tool is not there whose provider is known.
    pub(crate) fn missing(&self, name: &str) -> Option<String> {
        self.providers.iter().find_map(|provider| provider.missing(name))
    }

    /// Begins to have the tools of others, without waiting for any.
    pub(crate) fn begin(&self) {
        self.providers.iter().for_each(|provider| provider.begin());
    }

    /// Waits for the tools of others that are on their way for the first time.
    pub(crate) async fn settled(&self) {
        join_all(self.providers.iter().map(|provider| provider.settled())).await;
    }

    /// Ends whatever goes on behind the tools.
    pub(crate) async fn close(&self) {
        self.processes.close().await;
        join_all(self.providers.iter().map(|provider| provider.close())).await;
    }
}

/// The tools that need an engine.
fn engine_tools(settings: &Arc<Settings>, core: &Weak<Core>, browsers: &Arc<Browsers>) -> Vec<Arc<dyn Tool>> {
    let mut tools = session_tools(core);
    tools.push(Arc::new(ImageTool::new(Arc::clone(settings), Weak::clone(core))));
    if settings.has_browser() {
        tools.push(Arc::new(BrowserTool::new(Arc::clone(browsers))));
    }
    tools
}

/// Adds them to those an engine was given, if it was given any.
pub(crate) fn with_engine_tools(
    toolbox: Toolbox,
    settings: &Arc<Settings>,
    core: &Weak<Core>,
    browsers: &Arc<Browsers>,
) -> Toolbox {
    if toolbox.registry.specs().next().is_none() {
        return toolbox;
    }
    let mut registry = Registry::clone(&toolbox.registry);
    for tool in engine_tools(settings, core, browsers) {
        if let Err(taken) = registry.add(tool) {
            tracing::warn!(%taken, "a tool is left out");
        }
    }
    Toolbox { registry: Arc::new(registry), ..toolbox }
}

/// The same for those who list and explain tools without an engine. They prepare calls and run none.
pub fn engine_tools_to_look_at(settings: &Settings) -> Vec<Arc<dyn Tool>> {
    let (settings, nobody) = (Arc::new(settings.clone()), Weak::new());
    engine_tools(&settings, &nobody, &browsers(&settings, &nobody))
}

pub(super) struct NoRunner;

impl Confiner for NoRunner {
    fn runner(&self, _confinement: &Confinement) -> Result<Arc<dyn Runner>, RunError> {
        Err(RunError::Supervisor("this process starts no programs".to_owned()))
    }
}
