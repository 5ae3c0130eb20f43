//! `talk.mode`: whether somebody talks with the agent at the moment. It is kept as long as the gateway runs, told to all,
//! and told to whoever comes later.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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

/// What was last said; nothing before anybody said anything.
#[derive(Default)]
pub(crate) struct Talk {
    last: Mutex<Option<Value>>,
}

impl Talk {
    fn last(&self) -> std::sync::MutexGuard<'_, Option<Value>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a client that has just entered.
    pub(crate) fn tell(&self, peer: &Peer) {
        if let Some(mode) = self.last().as_ref() {
            peer.tell(EVENT, mode);
        }
    }
}

pub(crate) async fn mode(caller: Caller, params: TalkMode) -> Result<Value, WireError> {
    let shared = &caller.gate.shared;
    let mode = json!({ "enabled": params.enabled, "phase": params.phase, "ts": shared.now() });
    *shared.hub.talk.last() = Some(mode.clone());
    shared.hub.broadcast(EVENT, &mode, Audience::Everybody, Weight::Droppable);
    Ok(mode)
}
