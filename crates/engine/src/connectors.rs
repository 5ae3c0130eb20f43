//! Connectors under supervision: one that fails, panics or ends is started again, later each time, and hurts nobody else.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde::{Deserialize, Serialize};
use tidegate_protocol::{ChannelName, Connector, ConnectorError};
use tokio::sync::Semaphore;

use crate::events::EngineEvent;
use crate::ingest::Sink;
use crate::start::{Core, Engine};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A connector that received for this long is well again.
const WELL: Duration = Duration::from_mins(1);
/// Sends of one account at once.
const SENDS: usize = 16;

/// Where a connector stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChannelState {
    Running,
    /// It failed and is started again after a pause.
    Retrying,
    /// The network refuses it: somebody must change something. It is tried again now and then.
    Refused,
    Stopped,
}

/// What is known about one account on a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelStatus {
    pub channel: ChannelName,
    pub account: String,
    pub state: ChannelState,
    /// Since when, in milliseconds since the epoch.
    pub since: i64,
    pub restarts: u64,
    pub last_error: Option<String>,
    pub last_inbound_at: Option<i64>,
    pub last_outbound_at: Option<i64>,
}

pub(crate) struct Supervised {
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) sends: Arc<Semaphore>,
    status: Mutex<ChannelStatus>,
}

impl Supervised {
    pub(crate) fn new(connector: Arc<dyn Connector>, now: i64) -> Self {
        let status = ChannelStatus {
            channel: connector.channel().clone(),
            account: connector.account().to_owned(),
            state: ChannelState::Stopped,
            since: now,
            restarts: 0,
            last_error: None,
            last_inbound_at: None,
            last_outbound_at: None,
        };
        Self { connector, sends: Arc::new(Semaphore::new(SENDS)), status: Mutex::new(status) }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut ChannelStatus)) -> ChannelStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut status);
        status.clone()
    }

    pub(crate) fn is(&self, channel: &ChannelName, account: &str) -> bool {
        self.connector.channel() == channel && self.connector.account() == account
    }
}

impl Engine {
    /// Every account of every connector.
    pub fn channels(&self) -> Vec<ChannelStatus> {
        self.core.connectors.iter().map(|connector| connector.note(|_| {})).collect()
    }
}

impl Core {
    pub(crate) fn connector(&self, channel: &ChannelName, account: &str) -> Option<&Arc<Supervised>> {
        self.connectors.iter().find(|connector| connector.is(channel, account))
    }

    fn tell_channel(&self, supervised: &Supervised, state: ChannelState, error: Option<String>) {
        let now = self.clock.now_ms();
        let status = supervised.note(|status| {
            (status.state, status.since) = (state, now);
            if error.is_some() {
                status.last_error = error;
            }
        });
        self.bus.publish(|| EngineEvent::Channel(status));
    }
}

/// Keeps one connector receiving until the engine takes nothing more.
pub(crate) async fn supervise(core: Arc<Core>, supervised: Arc<Supervised>) {
    let mut pause = FIRST_PAUSE;
    loop {
        core.tell_channel(&supervised, ChannelState::Running, None);
        let (begin, before) = (Instant::now(), supervised.note(|_| {}).last_inbound_at);
        let sink = Arc::new(Sink::new(Arc::clone(&core), Arc::clone(&supervised)));
        let receive = AssertUnwindSafe(supervised.connector.receive(sink)).catch_unwind();
        let ended = tokio::select! {
            ended = receive => ended,
            () = core.closing.requested() => break,
        };
        if core.closing.is_requested() {
            break;
        }
        let (state, error) = match ended {
            Ok(Ok(())) => (ChannelState::Retrying, "it stopped receiving without a reason".to_owned()),
            Ok(Err(error @ ConnectorError::Refused(_))) => (ChannelState::Refused, error.to_string()),
            Ok(Err(error)) => (ChannelState::Retrying, error.to_string()),
            Err(_) => (ChannelState::Retrying, "a fault in the connector".to_owned()),
        };
        // One that delivered was well: a network that hangs up often is not away for longer each time.
        if begin.elapsed() >= WELL || supervised.note(|_| {}).last_inbound_at != before {
            pause = FIRST_PAUSE;
        }
        if state == ChannelState::Refused {
            pause = LONGEST_PAUSE;
        }
        let (channel, account) = (supervised.connector.channel(), supervised.connector.account());
        tracing::warn!(%channel, account, error, pause_ms = pause.as_millis(), "connector ended; it is started again");
        supervised.note(|status| status.restarts += 1);
        core.tell_channel(&supervised, state, Some(error));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = core.closing.requested() => break,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    core.tell_channel(&supervised, ChannelState::Stopped, None);
}
