//! `talk.mode`: whether somebody talks with the agent at the moment. It is kept as long as the gateway runs, told to all,
//! and told to whoever comes later.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::methods::Caller;
use crate::ws::frame::WireError;
use crate::ws::outbox::Weight;
use crate::ws::peer::{Audience, Peer};

const EVENT: &str = "talk.mode";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TalkMode {
    enabled: bool,
    phase: Option<String>,
}

/// Whether somebody talks, and since when that is known.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Talking {
    enabled: bool,
    phase: Option<String>,
    ts: i64,
}

/// What was last said; nothing before anybody said anything.
#[derive(Default)]
pub(crate) struct Talk {
    last: Mutex<Option<Talking>>,
}

impl Talk {
    fn last(&self) -> std::sync::MutexGuard<'_, Option<Talking>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a client that has just entered.
    pub(crate) fn tell(&self, peer: &Peer) {
        if let Some(mode) = self.last().as_ref() {
            peer.tell(EVENT, mode);
        }
    }
}

pub(crate) async fn mode(caller: Caller, params: TalkMode) -> Result<Talking, WireError> {
    let shared = &caller.gate.shared;
    let mode = Talking { enabled: params.enabled, phase: params.phase, ts: shared.now() };
    *shared.hub.talk.last() = Some(mode.clone());
    shared.hub.broadcast(EVENT, &mode, Audience::Everybody, Weight::Droppable);
    Ok(mode)
}
