//! Sending: a lane a target, one part at a time, and never blindly twice.
//!
//! A lane is worked on by at most one task of this process; the store sees to it that no other process does. What
//! became of a send that nobody knows the end of is decided by [`doubt`], purely.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_policy::Principal;
use tidegate_protocol::{ChannelName, Doubt, Found, OutboxId, Part, SendOutcome};
use tidegate_runtime::fault;
use tidegate_storage::{Decided, NextSend, OutboxRow, OutboxState, POISON_CRASHES, Sending, StoreError};
use tokio::sync::Notify;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::connectors::Supervised;
use crate::error::EngineError;
use crate::schedule::LEASE_TTL_MS;
use crate::start::{Core, Engine};

/// How long one send may take before its end is unknown.
const SEND_WITHIN: Duration = Duration::from_mins(1);
/// Lanes looked up at once.
const LANES: u32 = 100_000;
/// How often the store is asked for lanes that nobody told us about.
const LOOK: Duration = Duration::from_secs(5);
/// How often a send is repeated with the same key, or looked for, before its end stays unknown.
const TRIES: u32 = 3;

/// The lanes this process works on.
#[derive(Default)]
pub(crate) struct Outlets {
    /// `true`: something was added since the lane was last found empty.
    lanes: Mutex<HashMap<String, bool>>,
    /// Wakes those that wait for their time: it may have come.
    nudge: Notify,
}

impl Outlets {
    /// Whether the caller is to work on the lane; else whoever does is told to look again.
    fn enter(&self, lane: &str) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        match lanes.get_mut(lane) {
            Some(again) => {
                *again = true;
                self.nudge.notify_waiters();
                false
            }
            None => lanes.insert(lane.to_owned(), false).is_none(),
        }
    }

    /// Whether the lane may be left; not if something came since.
    fn leave(&self, lane: &str) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        match lanes.get_mut(lane) {
            Some(again) if *again => {
                *again = false;
                false
            }
            _ => {
                lanes.remove(lane);
                true
            }
        }
    }

    /// Whether something came since the lane was looked at; then it is worth another look.
    fn looks_again(&self, lane: &str) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get_mut(lane).is_some_and(std::mem::take)
    }

    fn abandon(&self, lane: &str) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).remove(lane);
    }
}

impl Engine {
    /// A person wants a part sent (again).
    pub async fn retry_send(&self, principal: &Principal, id: OutboxId) -> Result<Decided, EngineError> {
        let decided = self.core.store.retry_send(principal, id, self.core.clock.now_ms()).await?;
        self.core.unsealed.notify_one();
        self.core.look_for_lanes().await;
        Ok(decided)
    }

    /// A person gives a part up.
    pub async fn drop_send(&self, principal: &Principal, id: OutboxId) -> Result<Decided, EngineError> {
        let decided = self.core.store.drop_send(principal, id, self.core.clock.now_ms()).await?;
        self.core.unsealed.notify_one();
        self.core.outlets.nudge.notify_waiters();
        Ok(decided)
    }

    /// What could not be delivered and was not told yet. Whoever tells it notes that with [`Engine::told`].
    pub async fn undelivered(&self, limit: u32) -> Result<Vec<OutboxRow>, EngineError> {
        Ok(self.core.store.undelivered(&self.core.tenant, limit).await?)
    }

    pub async fn told(&self, rows: &[OutboxRow]) -> Result<(), EngineError> {
        let ids: Vec<OutboxId> = rows.iter().map(|row| row.id).collect();
        Ok(self.core.store.note_told(&self.core.tenant, &ids, self.core.clock.now_ms()).await?)
    }
}

/// Finds lanes until the engine stops.
pub(crate) async fn run(core: Arc<Core>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = core.stopped.requested() => return,
            _ = look.tick() => core.look_for_lanes().await,
        }
    }
}

impl Core {
    async fn look_for_lanes(self: &Arc<Self>) {
        if self.connectors.is_empty() {
            return;
        }
        match self.store.lanes(&self.tenant, LANES).await {
            Ok(lanes) => {
                for lane in lanes {
                    self.wake_lane(lane.name, &lane.channel, &lane.account_id);
                }
            }
            Err(error) => {
                self.watch(&error);
                tracing::warn!(%error, "the lanes cannot be read");
            }
        }
    }

    /// Something may wait in this lane.
    pub(crate) fn wake_lane(self: &Arc<Self>, lane: String, channel: &ChannelName, account: &str) {
        let Some(supervised) = self.connector(channel, account) else { return };
        if self.stopped.is_requested() || !self.outlets.enter(&lane) {
            return;
        }
        let (core, supervised) = (Arc::clone(self), Arc::clone(supervised));
        // Counted as work from now on: the engine waits for what goes out.
        let token = self.work.token();
        let task = async move { core.work_lane(lane, supervised, token).await };
        tidegate_runtime::spawn("lane", task);
    }

    async fn work_lane(self: Arc<Self>, lane: String, supervised: Arc<Supervised>, token: TaskTrackerToken) {
        let mut token = Some(token);
        loop {
            if self.stopped.is_requested() {
                return self.outlets.abandon(&lane);
            }
            token.get_or_insert_with(|| self.work.token());
            let Ok(permit) = supervised.sends.acquire().await else { return self.outlets.abandon(&lane) };
            let now = self.clock.now_ms();
            let next = self.store.claim_send(&self.tenant, &self.owner, &lane, LEASE_TTL_MS, now).await;
            let pause = match next {
                Ok(NextSend::Granted(sending)) => {
                    self.send(&sending, &supervised).await;
                    continue;
                }
                Ok(NextSend::Empty) if self.outlets.leave(&lane) => return,
                Ok(NextSend::Empty) => continue,
                Ok(NextSend::Later(at)) => {
                    Duration::from_millis(u64::try_from(at - now).unwrap_or(0).clamp(1, 60_000))
                }
                Ok(NextSend::Busy) => Duration::from_secs(1),
                Err(StoreError::StaleFence) => {
                    self.superseded();
                    return self.outlets.abandon(&lane);
                }
                Err(error) => {
                    self.watch(&error);
                    if matches!(error, StoreError::Full(_)) {
                        self.ballast.free();
                    }
                    tracing::warn!(%error, lane, "the lane cannot be read");
                    Duration::from_millis(500)
                }
            };
            if self.outlets.looks_again(&lane) {
                continue;
            }
            // Waiting is no work.
            drop((token.take(), permit));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.outlets.nudge.notified() => {}
                () = self.closing.requested() => return self.outlets.abandon(&lane),
            }
        }
    }

    async fn send(&self, sending: &Sending, supervised: &Supervised) {
        fault::pause("engine.send.claimed").await;
        let part = Part { body: sending.body.clone(), lane: sending.lane.clone() };
        let outcome = self.carry_out(sending, supervised, &part).await;
        fault::pause("engine.send.answered").await;
        if let SendOutcome::Sent { .. } = outcome {
            supervised.note(|status| status.last_outbound_at = Some(self.clock.now_ms()));
        }
        let mut pause = Duration::from_millis(50);
        loop {
            match self.store.settle_send(sending, outcome.clone(), self.clock.now_ms()).await {
                Ok(state) => return tell_sent(sending, &state, &outcome),
                // The row was settled by somebody else; what we know changes nothing any more.
                Err(StoreError::StaleFence) => return,
                Err(error) => {
                    self.watch(&error);
                    if matches!(error, StoreError::Full(_)) {
                        self.ballast.free();
                    }
                    let passes = matches!(error, StoreError::Full(_) | StoreError::Unavailable(_));
                    if !passes {
                        // The part stays ours for ever while we live: only a new start can settle it.
                        return self.fail(error);
                    }
                    if self.stopped.is_requested() {
                        return;
                    }
                    tracing::warn!(%error, part = %sending.id, "what became of a send cannot be written yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
            }
        }
    }

    /// Sends, and settles doubt as far as the network allows.
    async fn carry_out(&self, sending: &Sending, supervised: &Supervised, part: &Part) -> SendOutcome {
        let kind = std::panic::catch_unwind(AssertUnwindSafe(|| supervised.connector.doubt()));
        let kind = kind.unwrap_or(Doubt::Blind);
        let key = sending.id.to_string();
        // Tries that the network turned away count too, so that a part may be given up early; reading is always safe.
        let poisoned = sending.doubtful && sending.attempt > POISON_CRASHES;
        let mut step = if sending.doubtful { doubt(kind, 0) } else { Step::Send };
        let mut tries = 0;
        loop {
            if poisoned && step == Step::Send {
                step = Step::GiveUp(format!(
                    "not sent again after {} tries that may have crashed",
                    sending.attempt - 1
                ));
            }
            let reason = match step {
                Step::GiveUp(reason) => return SendOutcome::Unknown { reason },
                Step::Find => match self.guard(supervised.connector.find(part, &key)).await {
                    Ok(Found::Sent { id }) => return SendOutcome::Sent { id },
                    Ok(Found::Absent) => {
                        step = Step::Send;
                        continue;
                    }
                    Ok(Found::Unknown { reason }) | Err(reason) => reason,
                },
                Step::Send => match self.guard(supervised.connector.send(part, &key)).await {
                    Ok(SendOutcome::Unknown { reason }) | Err(reason) => reason,
                    // This try was refused; an earlier one may be there for everybody to see.
                    Ok(SendOutcome::Rejected { reason }) if sending.doubtful || tries > 0 => {
                        return SendOutcome::Unknown { reason };
                    }
                    Ok(outcome) => return outcome,
                },
            };
            tries += 1;
            step = match doubt(kind, tries) {
                Step::GiveUp(_) => Step::GiveUp(reason),
                step => step,
            };
            if !matches!(step, Step::GiveUp(_)) {
                tokio::time::sleep(Duration::from_millis(200 * u64::from(tries))).await;
            }
        }
    }

    /// A connector that panics or never comes back has said nothing.
    async fn guard<T>(&self, call: impl Future<Output = T>) -> Result<T, String> {
        match tokio::time::timeout(SEND_WITHIN, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err("a fault in the connector".to_owned()),
            Err(_) => Err(format!("no answer within {} s", SEND_WITHIN.as_secs())),
        }
    }
}

/// Says in the log what did not go out.
fn tell_sent(sending: &Sending, state: &OutboxState, outcome: &SendOutcome) {
    match (state, outcome) {
        (
            OutboxState::Dead | OutboxState::Unknown,
            SendOutcome::Rejected { reason } | SendOutcome::Unknown { reason },
        ) => {
            tracing::warn!(part = %sending.id, channel = %sending.channel, state = state.as_str(), reason,
                "a reply was not delivered; see `outbox list`");
        }
        (_, SendOutcome::NotSent { reason, .. }) => {
            tracing::info!(part = %sending.id, channel = %sending.channel, reason, "not sent yet");
        }
        _ => {}
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Send,
    Find,
    GiveUp(String),
}

/// What to do about a part that may have gone out.
fn doubt(kind: Doubt, tries: u32) -> Step {
    if tries >= TRIES {
        return Step::GiveUp("nobody could tell".to_owned());
    }
    match kind {
        Doubt::SameKey => Step::Send,
        Doubt::ReadBack => Step::Find,
        Doubt::Blind => Step::GiveUp("the process died while sending".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blind_network_is_never_sent_to_twice() {
        for tries in 0..4 {
            assert!(matches!(doubt(Doubt::Blind, tries), Step::GiveUp(_)));
        }
    }

    #[test]
    fn a_readable_network_is_read_before_anything_is_sent() {
        assert_eq!(doubt(Doubt::ReadBack, 0), Step::Find);
        assert_eq!(doubt(Doubt::SameKey, 0), Step::Send);
    }

    #[test]
    fn every_doubt_ends() {
        for kind in [Doubt::Blind, Doubt::ReadBack, Doubt::SameKey] {
            assert!(matches!(doubt(kind, TRIES), Step::GiveUp(_)));
        }
    }

    #[test]
    fn what_comes_while_a_lane_is_left_is_not_forgotten() {
        let outlets = Outlets::default();
        assert!(outlets.enter("a"));
        assert!(!outlets.enter("a"));
        assert!(!outlets.leave("a"), "something came");
        assert!(outlets.leave("a"));
        assert!(outlets.enter("a"));
    }
}
