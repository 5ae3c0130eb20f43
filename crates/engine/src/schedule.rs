//! Whose turn it is: sessions with waiting runs, taken up as fast as lanes allow.
//!
//! The store decides that a session has one run at a time and which is next; here is only the order in which sessions
//! are looked at, and how many runs there may be at once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_protocol::{Lane, ReplyTarget, RunId, SessionKey};
use tidegate_storage::{Admission, Claim, StoreError, Waiting};
use tokio::sync::{Notify, Semaphore};

use crate::execute::Work;
use crate::lanes::{LaneLimits, LaneReport, Lanes, Permit, Waiter};
use crate::start::{Core, Engine};

/// A session that another instance holds is free after this much silence.
pub(crate) const LEASE_TTL_MS: i64 = 30_000;
/// How often the store is asked for sessions that nobody told us about: another instance's, or those for which the lanes
/// had no room.
const REFILL: Duration = Duration::from_secs(5);
/// The same for a command, which waits behind another instance's run and does nothing else.
const REFILL_PASSING: Duration = Duration::from_millis(100);
/// Before the store is asked because there is room again: half of what waits here is still to come.
const BETWEEN: Duration = Duration::from_millis(50);
/// After a store that did not answer.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Scheduler {
    lanes: Lanes,
    /// Told that the store is to be asked at once.
    refill: Notify,
    /// Sessions whose next run crashed so often that this try is its last, each with its lane. They are taken up one at a
    /// time: else the one that kills the process would take the others, which only ran beside it, along.
    suspects: Mutex<Vec<(SessionKey, Lane)>>,
    alone: Arc<Semaphore>,
}

impl Scheduler {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        Self {
            lanes: Lanes::new(limits),
            refill: Notify::new(),
            suspects: Mutex::default(),
            alone: Arc::new(Semaphore::new(1)),
        }
    }

    /// Notes a session whose next run is on its last try.
    pub(crate) fn suspect(&self, key: SessionKey, lane: Lane) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).push((key, lane));
    }

    fn suspects(&self) -> Vec<(SessionKey, Lane)> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the session is like any other.
    fn clear(&self, key: &SessionKey) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).retain(|(suspect, _)| suspect != key);
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Notes that the session's next run may be claimed.
    fn push(&self, key: SessionKey, lane: Lane, run: Option<RunId>) {
        let suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        if suspects.iter().all(|(suspect, _)| *suspect != key) {
            drop(suspects);
            self.lanes.wait(lane, key, run);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.is_idle()
    }
}

impl Engine {
    /// How the lanes stand.
    pub fn lanes(&self) -> Vec<LaneReport> {
        self.core.scheduler.lanes.report()
    }
}

impl Core {
    /// Goes on with a run that was just accepted.
    pub(crate) fn admitted(self: &Arc<Self>, work: Work, admission: Admission, permit: Option<Permit>) {
        self.tell_queued(&work);
        let lane = work.spec.lane(&work.key);
        match (admission, permit) {
            (Admission::Claimed(lease), Some(permit)) => self.begin(work, lease, permit),
            // Only what was to be claimed is.
            (Admission::Claimed(lease), None) => tracing::error!(run = %lease.run, "claimed without a lane"),
            // The session was idle, only the lanes were full.
            (Admission::Queued { ahead: 0 }, _) => self.scheduler.push(work.key, lane, Some(work.run)),
            // Whatever is ahead may be a dead process's, which a passing one takes up only where it is in the way.
            (Admission::Queued { .. }, _) if !self.stays => self.scheduler.push(work.key, lane, None),
            // The run before it takes up the next one when it ends.
            (Admission::Queued { .. } | Admission::Replayed, _) => {}
        }
    }

    /// Looks whether the session has a run to claim, and has it wait for its place.
    pub(crate) async fn take_up_next(&self, key: &SessionKey) {
        match self.store.next(key).await {
            Ok(Some(Waiting { key, run, lane })) => self.scheduler.push(key, lane, Some(run)),
            // A run that a dead process holds is found when the store is asked for all that waits.
            Ok(None) => {}
            Err(error) => {
                self.watch(&error);
                tracing::warn!(%error, session = %key, "the session's next run cannot be looked for");
                self.scheduler.push(key.clone(), Lane::of(key), None);
            }
        }
    }
}

/// Takes up waiting sessions as they get their places, until the engine stops taking work.
pub(crate) async fn run(core: Arc<Core>) {
    let lanes = core.scheduler.lanes();
    loop {
        let ends = core.closing.is_requested() && core.stays;
        tokio::select! {
            () = core.stopped.requested() => return,
            () = core.closing.requested(), if core.stays && !ends => {}
            () = lanes.turn() => {}
        }
        // A process that stays leaves the rest of the queue to its successor.
        if core.closing.is_requested() && core.stays {
            lanes.dismiss();
        }
        loop {
            // Work from before it leaves the queue: whoever waits for the end of all work must not look in between.
            let _taken = core.work.token();
            let Some((waiter, permit)) = lanes.next() else { break };
            let core = Arc::clone(&core);
            let task = core.work.track_future(take_up(Arc::clone(&core), waiter, permit));
            tidegate_runtime::spawn("session", task);
        }
        if lanes.is_short() {
            core.scheduler.refill.notify_one();
        }
    }
}

/// Takes up the sessions whose run is on its last try, each when the one before it is over.
pub(crate) async fn one_by_one(core: Arc<Core>) {
    for (key, lane) in core.scheduler.suspects() {
        let permits = async {
            let alone = Arc::clone(&core.scheduler.alone).acquire_owned().await.ok()?;
            Some(core.scheduler.lanes.acquire(lane, &key.scope).await?.alone(alone))
        };
        let permit = tokio::select! {
            permit = permits => permit,
            () = core.closing.requested() => return,
        };
        let Some(permit) = permit else { return };
        core.work.track_future(take_up(Arc::clone(&core), Waiter::of(key.clone()), permit)).await;
        core.scheduler.clear(&key);
        core.take_up_next(&key).await;
    }
}

/// Asks the store again and again which sessions wait.
pub(crate) async fn refill(core: Arc<Core>) {
    let mut tick = tokio::time::interval(if core.stays { REFILL } else { REFILL_PASSING });
    loop {
        tokio::select! {
            () = core.stopped.requested() => return,
            () = core.scheduler.refill.notified() => tokio::time::sleep(BETWEEN).await,
            _ = tick.tick() => {}
        }
        fill(&core).await;
    }
}

async fn fill(core: &Arc<Core>) {
    // A command does what it was asked and what stands before that; the rest is the gateway's.
    let own = if core.stays { None } else { Some(core.live.sessions()) };
    let lanes = core.scheduler.lanes();
    let wanting = lanes.wanting();
    if wanting.is_empty() || own.as_ref().is_some_and(HashSet::is_empty) {
        return;
    }
    let limit = u32::try_from(lanes.limits.remembered).unwrap_or(u32::MAX);
    let now = core.clock.now_ms();
    match core.store.waiting(&core.tenant, &core.owner, LEASE_TTL_MS, now, limit).await {
        Ok(waiting) => {
            lanes.refilled(&wanting, u32::try_from(waiting.len()).is_ok_and(|told| told < limit));
            let is_wanted = |waiting: &Waiting| {
                wanting.contains(&waiting.lane) && own.as_ref().is_none_or(|own| own.contains(&waiting.key))
            };
            for Waiting { key, run, lane } in waiting.into_iter().filter(is_wanted) {
                core.scheduler.push(key, lane, Some(run));
            }
        }
        Err(error) => {
            core.watch(&error);
            tracing::warn!(%error, "the waiting sessions cannot be read");
        }
    }
}

/// Claims a session's next run and starts it.
async fn take_up(core: Arc<Core>, waiter: Waiter, permit: Permit) {
    let Waiter { key, run, .. } = waiter;
    let now = core.clock.now_ms();
    let claimed = core.store.claim(&key, &core.owner, LEASE_TTL_MS, now).await;
    let lease = match claimed {
        Ok(Claim::Granted(lease)) => lease,
        Ok(Claim::Busy { .. } | Claim::Nothing) => return,
        Err(StoreError::StaleFence) => return core.superseded(),
        Err(error) => {
            core.watch(&error);
            tracing::warn!(%error, session = %key, "the session's next run cannot be claimed");
            let lane = permit.lane();
            drop(permit);
            tokio::time::sleep(PAUSE).await;
            return core.scheduler.push(key, lane, run);
        }
    };
    match core.row(lease.run).await {
        // A command has no connectors, so it cannot render the reply: the next gateway does.
        Ok(row) if !core.stays && matches!(row.reply, ReplyTarget::Channel { .. }) => {
            if let Err(error) = core.store.release(&lease, core.clock.now_ms()).await {
                core.watch(&error);
            }
        }
        Ok(row) => {
            let work = Work::of_row(&core.tenant, &row);
            let lane = work.spec.lane(&work.key);
            // The session's next run became another one meanwhile.
            let other = (lane != permit.lane()).then(|| core.scheduler.lanes.permit_now(lane)).flatten();
            core.begin(work, lease, other.unwrap_or(permit));
        }
        Err(error) => {
            // It is claimed: without its row it can only be given back.
            tracing::error!(%error, run = %lease.run, "a claimed run cannot be read");
            if let Err(error) = core.store.release(&lease, core.clock.now_ms()).await {
                core.watch(&error);
            }
            let lane = permit.lane();
            drop(permit);
            tokio::time::sleep(PAUSE).await;
            core.scheduler.push(key, lane, run);
        }
    }
}
