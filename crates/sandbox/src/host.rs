//! Profile `none`: programs run on the bare machine.

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidegate_policy::exec::Plan;
use tidegate_policy::{PermittedPlan, RunError, Runner, Running, Sink, Start};
use tokio::sync::{Mutex, oneshot, watch};

use crate::attend::Attendant;
use crate::hold::Hold;
use crate::input::Input;
use crate::order::Order;
use crate::running::{HostRun, Wish};
use crate::wires::Wires;

/// How long it may take until the first programs of a plan run: a file may lie on a disk that does not answer.
const STARTING: Duration = Duration::from_secs(30);

/// How this executable is started as a supervisor: what it then calls is [`crate::supervise`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// Runs plans with the rights of the gateway, under a supervisor each.
#[derive(Debug, Clone)]
pub struct Host {
    supervisor: Supervisor,
    pub(crate) starting: Duration,
}

impl Host {
    pub fn new(supervisor: Supervisor) -> Self {
        Self { supervisor, starting: STARTING }
    }

    /// How supervisors are started.
    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Everything but the proof that it is permitted. When the future is dropped, whatever was started dies.
    pub(crate) async fn start_plan(
        &self,
        plan: &Plan,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<HostRun, RunError> {
        let order = Order::new(plan, start.pty.is_some(), Hold::Nothing);
        self.start_order(order, None, start, sink).await
    }

    /// Starts what a supervisor is told. What `keeps` holds is dropped when the plan has ended.
    pub(crate) async fn start_order(
        &self,
        order: Order,
        keeps: Option<Box<dyn Any + Send + Sync>>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<HostRun, RunError> {
        let wires = Wires::new(start).map_err(|error| no_streams(&error))?;
        let Wires { theirs, outputs, input } = wires;
        let input = input.map(Input::new).transpose().map_err(|error| no_streams(&error))?;
        let input = Arc::new(Mutex::new(input));
        let (wish, wishes) = watch::channel(Wish::Run);
        let (exit_to, exit) = watch::channel(None);
        let (started_to, started) = oneshot::channel();
        let attendant = Attendant {
            supervisor: self.supervisor.clone(),
            starting: self.starting,
            order,
            keeps,
            theirs,
            outputs,
            sink,
            input: Arc::clone(&input),
            wishes,
            started: Some(started_to),
            exit: exit_to,
        };
        // It ends by itself: when the plan has ended, or soon after nobody holds the wish any more.
        drop(tidegate_runtime::spawn("supervisor", attendant.attend()));
        let gone = || RunError::Supervisor("nobody attends to it any more".to_owned());
        let pid = started.await.map_err(|_| gone())??;
        Ok(HostRun { pid, wish, exit, input })
    }
}

fn no_streams(error: &io::Error) -> RunError {
    RunError::Supervisor(format!("there are no streams for it: {error}"))
}

#[async_trait]
impl Runner for Host {
    fn confines(&self) -> bool {
        false
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        Ok(Box::new(self.start_plan(plan.plan(), start, sink).await?))
    }
}
