//! The bus: what changed, for everybody who watches more than one run. Bounded: who is too slow misses and is told so.

use tidegate_policy::approval::Approval;
use tidegate_protocol::{ErrorBody, Lane, RunId, RunState, SessionKey};
use tokio::sync::broadcast;

use crate::connectors::ChannelStatus;
use crate::service::ServiceStatus;

/// Events that may wait for the slowest listener.
const BOUND: usize = 1024;

#[derive(Debug, Clone)]
pub enum EngineEvent {
    Run(RunChange),
    Channel(ChannelStatus),
    /// A service is in another state.
    Service(ServiceStatus),
    /// A run waits for a place for longer than it should.
    Waits(LaneWait),
    /// A question to a person was put, answered or ended.
    Approval(Box<Approval>),
}

/// A run was accepted, began, or ended. After an end it is durable.
#[derive(Debug, Clone)]
pub struct RunChange {
    pub key: SessionKey,
    pub run: RunId,
    pub state: RunState,
    /// What was asked.
    pub text: String,
    pub client_key: Option<String>,
    pub attempt: u32,
    /// When it was accepted, in milliseconds since the epoch.
    pub at: i64,
    pub error: Option<ErrorBody>,
}

/// A run that waits for a place in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneWait {
    pub key: SessionKey,
    pub run: RunId,
    pub lane: Lane,
    /// So many come before it.
    pub ahead: usize,
    pub waited_ms: u64,
}

pub(crate) struct Bus {
    sender: broadcast::Sender<EngineEvent>,
}

impl Bus {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BOUND) }
    }

    /// Nobody listening is no failure. The event is made only if somebody does.
    pub(crate) fn publish(&self, event: impl FnOnce() -> EngineEvent) {
        if self.sender.receiver_count() > 0 {
            let _ = self.sender.send(event());
        }
    }

    pub(crate) fn subscribe(&self) -> Events {
        Events { receiver: self.sender.subscribe() }
    }
}

/// Listens to the bus.
pub struct Events {
    receiver: broadcast::Receiver<EngineEvent>,
}

/// Some events were lost: what is known must be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed;

impl Events {
    /// The next event; `None` when the engine is gone.
    pub async fn next(&mut self) -> Option<Result<EngineEvent, Missed>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Err(Missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
