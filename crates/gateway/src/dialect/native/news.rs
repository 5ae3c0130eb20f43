//! What everybody who speaks our own dialect hears, in one order, and hearing it again after a break.
//!
//! News say that something changed, and enough to know whether one cares; whoever follows a conversation has its own events.

use serde::Serialize;
use tidegate_engine::{EngineEvent, RunChange, session_name};
use tidegate_policy::approval::{Approval, ApprovalState, view};
use tidegate_protocol::SessionKey;
use tidegate_protocol::api::{
    ApprovalNews, HealthView, MissedEvents, ResumeEvents, Resumed, RunNews, SessionChange, SessionsChanged,
    Tick,
};

use crate::api::follow::changed;
use crate::api::status::{channel_list, service_list};
use crate::gate::Gate;
use crate::methods::Caller;
use crate::openai::is_one_off;
use crate::ws::frame::WireError;
use crate::ws::hub;
use crate::ws::outbox::Weight;
use crate::ws::peer::Audience;

/// Characters of a question in the news: everybody hears it, and most do not read it.
const QUESTION: usize = 300;

fn announce(gate: &Gate, event: &str, payload: &impl Serialize) {
    match serde_json::to_value(payload) {
        Ok(payload) => gate.shared.hub.broadcast(event, &payload, Audience::Native, Weight::Kept),
        Err(error) => tracing::error!(%error, event, "an event cannot be written"),
    }
}

/// What the engine tells.
pub(crate) fn tell(gate: &Gate, event: &EngineEvent) {
    match event {
        // Nobody watches a conversation that lives for one request.
        EngineEvent::Run(change) if is_one_off(&change.key) => {}
        EngineEvent::Run(change) => run(gate, change.clone()),
        EngineEvent::Approval(approval) => question(gate, approval),
        EngineEvent::Channel(_) | EngineEvent::Service(_) => health(gate),
        // Those who follow its conversation are told.
        EngineEvent::Waits(_) => {}
    }
}

fn run(gate: &Gate, mut change: RunChange) {
    let Some(session) = name_of(gate, &change.key) else { return };
    if let Some((end, _)) = change.text.char_indices().nth(QUESTION) {
        change.text.truncate(end);
        change.text.push('…');
    }
    let ended = change.state.is_terminal();
    let key = change.key.clone();
    announce(gate, "run.changed", &RunNews { session, run: changed(change) });
    session_changed(gate, &key, if ended { SessionChange::Ended } else { SessionChange::Asked });
}

fn question(gate: &Gate, approval: &Approval) {
    let event = match approval.state {
        ApprovalState::Pending => "approval.asked",
        ApprovalState::Approved
        | ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Cancelled => "approval.settled",
        // It was told when it was answered.
        ApprovalState::Used | ApprovalState::Unknown(_) => return,
    };
    announce(gate, event, &ApprovalNews { approval: view(approval) });
}

/// A conversation stands elsewhere in the list, or is called otherwise.
pub(crate) fn session_changed(gate: &Gate, key: &SessionKey, reason: SessionChange) {
    if let Some(session) = name_of(gate, key) {
        announce(gate, "sessions.changed", &SessionsChanged { session, reason });
    }
}

fn name_of(gate: &Gate, key: &SessionKey) -> Option<String> {
    Some(session_name(&gate.engine().settings().scope(None).ok()?, key))
}

/// More happened than could be heard here, so nobody was told.
pub(crate) fn missed(gate: &Gate) {
    announce(gate, "missed", &MissedEvents {});
}

pub(crate) fn health(gate: &Gate) {
    announce(gate, "health", &health_now(gate));
}

pub(super) fn health_now(gate: &Gate) -> HealthView {
    let health = gate.engine().health();
    HealthView {
        at: gate.shared.now(),
        ready: health.ready,
        problems: health.problems,
        channels: channel_list(gate),
        services: service_list(gate),
    }
}

/// A sign of life. It has no number: who missed one missed nothing.
pub(crate) fn tick(gate: &Gate) {
    if let Ok(tick) = serde_json::to_value(Tick { at: gate.shared.now() }) {
        gate.shared.hub.tell("tick", &tick, Audience::Native);
    }
}

/// Sends a client again what it missed.
pub(crate) async fn resume(caller: Caller, params: ResumeEvents) -> Result<Resumed, WireError> {
    Ok(match caller.gate.shared.hub.resume(&caller.peer, &params.boot_id, params.after_seq) {
        hub::Resumed::Yes { seq, .. } => Resumed { resumed: true, seq },
        hub::Resumed::No { seq } => Resumed { resumed: false, seq },
    })
}
