//! What an engine was given to work with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{PermittedPlan, RunError, Runner, Running, Sink, Start};
use tidegate_runtime::SystemClock;
use tidegate_tools::{ProcessLimits, Processes, Registry};

/// The tools there are, and what they run on. Put together by whoever starts the engine.
#[derive(Clone)]
pub struct Toolbox {
    pub registry: Arc<Registry>,
    /// Starts programs; nothing else does.
    pub runner: Arc<dyn Runner>,
    /// Programs that go on after their call returned. They end with the engine.
    pub processes: Arc<Processes>,
    /// What programs find in their environment. Never the gateway's own, which has secrets in it.
    pub env: BTreeMap<String, String>,
    /// Folders no tool may reach, besides the home.
    pub forbidden: Vec<PathBuf>,
}

impl Toolbox {
    /// For a process that offers none.
    pub fn empty() -> Self {
        Self {
            registry: Arc::new(Registry::default()),
            runner: Arc::new(NoRunner),
            processes: Processes::new(ProcessLimits::default(), Arc::new(SystemClock)),
            env: BTreeMap::new(),
            forbidden: Vec::new(),
        }
    }
}

struct NoRunner;

#[async_trait]
impl Runner for NoRunner {
    fn confines(&self) -> bool {
        false
    }

    async fn start(
        &self,
        _plan: PermittedPlan<'_>,
        _start: Start,
        _sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        Err(RunError::Supervisor("this process starts no programs".to_owned()))
    }
}
