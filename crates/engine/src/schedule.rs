//! Whose turn it is: sessions with waiting runs, taken up as fast as lanes allow.
//!
//! The store decides that a session has one run at a time and which is next; here is only the order in which sessions
//! are looked at, and how many runs there may be at once.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_protocol::{Place, ReplyTarget, SessionKey};
use tidegate_storage::{Admission, Claim, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::execute::Work;
use crate::start::Core;

/// A session that another instance holds is free after this much silence.
pub(crate) const LEASE_TTL_MS: i64 = 30_000;
/// Sessions kept in memory; the rest waits in the store until these are through.
const READY: usize = 4096;
/// How often the store is asked for sessions that nobody told us about: another instance's, or those past `READY`.
const REFILL: Duration = Duration::from_secs(5);
/// The same for a command, which waits behind another instance's run and does nothing else.
const REFILL_PASSING: Duration = Duration::from_millis(100);
/// After a store that did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// Which runs share a number of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Main,
    /// Runs that other runs started.
    Sub,
}

impl Lane {
    pub(crate) const ALL: [Self; 2] = [Self::Main, Self::Sub];

    /// The lane of a conversation's runs.
    pub(crate) fn of(key: &SessionKey) -> Self {
        match key.place {
            Place::Sub { .. } => Self::Sub,
            _ => Self::Main,
        }
    }
}

/// The places there are. Clones share them.
#[derive(Clone)]
pub(crate) struct Lanes {
    main: Arc<Semaphore>,
    sub: Arc<Semaphore>,
}

impl Lanes {
    pub(crate) fn new(main: usize, sub: usize) -> Self {
        Self { main: Arc::new(Semaphore::new(main.max(1))), sub: Arc::new(Semaphore::new(sub.max(1))) }
    }

    fn places(&self, lane: Lane) -> Arc<Semaphore> {
        Arc::clone(match lane {
            Lane::Main => &self.main,
            Lane::Sub => &self.sub,
        })
    }

    /// Waits for a place; `None` only when there are none any more.
    pub(crate) async fn acquire(&self, lane: Lane) -> Option<Permit> {
        let place = self.places(lane).acquire_owned().await.ok()?;
        Some(Permit { lane, _place: place, _alone: None })
    }
}

/// A place in a lane, given back when the run is over.
pub(crate) struct Permit {
    lane: Lane,
    _place: OwnedSemaphorePermit,
    /// No other run on its last try is under way beside this one.
    _alone: Option<OwnedSemaphorePermit>,
}

impl Permit {
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }
}

pub(crate) struct Scheduler {
    lanes: Lanes,
    main: Waiting,
    sub: Waiting,
    /// Sessions whose next run crashed so often that this try is its last. They are taken up one at a time: else the
    /// one that kills the process would take the others, which only ran beside it, along.
    suspects: Mutex<Vec<SessionKey>>,
    alone: Arc<Semaphore>,
}

/// Sessions that wait for a place in one lane.
#[derive(Default)]
struct Waiting {
    ready: Mutex<Ready>,
    wake: Notify,
}

#[derive(Default)]
struct Ready {
    queue: VecDeque<SessionKey>,
    known: HashSet<SessionKey>,
}

impl Scheduler {
    pub(crate) fn new(main_lane: usize, sub_lane: usize) -> Self {
        Self {
            lanes: Lanes::new(main_lane, sub_lane),
            main: Waiting::default(),
            sub: Waiting::default(),
            suspects: Mutex::default(),
            alone: Arc::new(Semaphore::new(1)),
        }
    }

    /// Notes a session whose next run is on its last try.
    pub(crate) fn suspect(&self, key: SessionKey) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    fn suspects(&self) -> Vec<SessionKey> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the session is like any other.
    fn clear(&self, key: &SessionKey) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).retain(|suspect| suspect != key);
        self.push(key.clone());
    }

    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes.clone()
    }

    fn waiting(&self, lane: Lane) -> &Waiting {
        match lane {
            Lane::Main => &self.main,
            Lane::Sub => &self.sub,
        }
    }

    /// A place in the session's lane if one is free and nobody waits for it.
    pub(crate) fn permit_now(&self, key: &SessionKey) -> Option<Permit> {
        let lane = Lane::of(key);
        let place = self.lanes.places(lane).try_acquire_owned().ok()?;
        Some(Permit { lane, _place: place, _alone: None })
    }

    /// Notes that the session may have a run to claim.
    pub(crate) fn push(&self, key: SessionKey) {
        if self.suspects.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return;
        }
        let waiting = self.waiting(Lane::of(&key));
        let mut ready = waiting.ready();
        if ready.queue.len() < READY && ready.known.insert(key.clone()) {
            ready.queue.push_back(key);
            waiting.wake.notify_one();
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle().len() == Lane::ALL.len()
    }

    /// The lanes in which nobody waits. A full one must not keep the others from being looked after.
    fn idle(&self) -> Vec<Lane> {
        Lane::ALL.into_iter().filter(|lane| self.waiting(*lane).ready().queue.is_empty()).collect()
    }
}

impl Waiting {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<SessionKey> {
        let mut ready = self.ready();
        let key = ready.queue.pop_front()?;
        ready.known.remove(&key);
        Some(key)
    }
}

impl Core {
    /// Goes on with a run that was just accepted.
    pub(crate) fn admitted(self: &Arc<Self>, work: Work, admission: Admission, permit: Option<Permit>) {
        self.tell_queued(&work);
        match (admission, permit) {
            (Admission::Claimed(lease), Some(permit)) => self.begin(work, lease, permit),
            // Only what was to be claimed is.
            (Admission::Claimed(lease), None) => tracing::error!(run = %lease.run, "claimed without a lane"),
            // The session was idle, only the lanes were full.
            (Admission::Queued { ahead: 0 }, _) => self.scheduler.push(work.key),
            // Whatever is ahead may be a dead process's, which a passing one takes up only where it is in the way.
            (Admission::Queued { .. }, _) if !self.stays => self.scheduler.push(work.key),
            // The run before it takes up the next one when it ends.
            (Admission::Queued { .. } | Admission::Replayed, _) => {}
        }
    }
}

/// Takes up the waiting sessions of one lane until the engine stops taking work.
pub(crate) async fn run(core: Arc<Core>, lane: Lane) {
    let mut refill = tokio::time::interval(if core.stays { REFILL } else { REFILL_PASSING });
    let waiting = core.scheduler.waiting(lane);
    loop {
        tokio::select! {
            () = core.stopped.requested() => return,
            () = waiting.wake.notified() => {}
            // One of them asks for both.
            _ = refill.tick(), if lane == Lane::Main => fill(&core).await,
        }
        loop {
            // Work from before it leaves the queue: whoever waits for the end of all work must not look in between.
            let _taken = core.work.token();
            let Some(key) = waiting.pop() else { break };
            let permit = tokio::select! {
                permit = core.scheduler.lanes.acquire(lane) => permit,
                () = core.stopped.requested() => return,
            };
            // A process that stays leaves the rest of the queue to its successor.
            if core.closing.is_requested() && core.stays {
                continue;
            }
            let Some(permit) = permit else { return };
            let core = Arc::clone(&core);
            let task = core.work.track_future(take_up(Arc::clone(&core), key, permit));
            tidegate_runtime::spawn("session", task);
        }
    }
}

/// Takes up the sessions whose run is on its last try, each when the one before it is over.
pub(crate) async fn one_by_one(core: Arc<Core>) {
    for key in core.scheduler.suspects() {
        let permits = async {
            let alone = Arc::clone(&core.scheduler.alone).acquire_owned().await.ok()?;
            let permit = core.scheduler.lanes.acquire(Lane::of(&key)).await?;
            Some(Permit { _alone: Some(alone), ..permit })
        };
        let permit = tokio::select! {
            permit = permits => permit,
            () = core.closing.requested() => return,
        };
        let Some(permit) = permit else { return };
        core.work.track_future(take_up(Arc::clone(&core), key.clone(), permit)).await;
        core.scheduler.clear(&key);
    }
}

/// Asks the store which sessions wait.
async fn fill(core: &Arc<Core>) {
    // A command does what it was asked and what stands before that; the rest is the gateway's.
    let own = if core.stays { None } else { Some(core.live.sessions()) };
    let idle = core.scheduler.idle();
    if idle.is_empty() || own.as_ref().is_some_and(HashSet::is_empty) {
        return;
    }
    let limit = u32::try_from(READY).unwrap_or(u32::MAX);
    let now = core.clock.now_ms();
    match core.store.waiting(&core.tenant, &core.owner, LEASE_TTL_MS, now, limit).await {
        Ok(keys) => {
            let wanted = |key: &SessionKey| {
                idle.contains(&Lane::of(key)) && own.as_ref().is_none_or(|own| own.contains(key))
            };
            keys.into_iter().filter(wanted).for_each(|key| core.scheduler.push(key));
        }
        Err(error) => {
            core.watch(&error);
            tracing::warn!(%error, "the waiting sessions cannot be read");
        }
    }
}

/// Claims a session's next run and starts it.
async fn take_up(core: Arc<Core>, key: SessionKey, permit: Permit) {
    let now = core.clock.now_ms();
    let claimed = core.store.claim(&key, &core.owner, LEASE_TTL_MS, now).await;
    let lease = match claimed {
        Ok(Claim::Granted(lease)) => lease,
        Ok(Claim::Busy { .. } | Claim::Nothing) => return,
        Err(StoreError::StaleFence) => return core.superseded(),
        Err(error) => {
            core.watch(&error);
            tracing::warn!(%error, session = %key, "the session's next run cannot be claimed");
            tokio::time::sleep(PAUSE).await;
            return core.scheduler.push(key);
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
            core.begin(work, lease, permit);
        }
        Err(error) => {
            // It is claimed: without its row it can only be given back.
            tracing::error!(%error, run = %lease.run, "a claimed run cannot be read");
            if let Err(error) = core.store.release(&lease, core.clock.now_ms()).await {
                core.watch(&error);
            }
            tokio::time::sleep(PAUSE).await;
            core.scheduler.push(key);
        }
    }
}
