//! The places that runs take: four lanes, each with a number of its own and a queue that is fair between those who wait.
//!
//! It owns who has a place and who is next, and counts. What is done with a place is the scheduler's business, and which
//! run of a session comes next is the store's. A run that waits for somebody gives its place back (`pace`), so that
//! whoever it waits for can have it.

mod book;
mod fair;
mod tally;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_protocol::{Lane, RunId, Scope, SessionKey};
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};

use book::{Book, Late, Turn};
use tally::Tally;

pub(crate) use book::Waiter;
pub use tally::{WAIT_CLASSES_MS, Waits};
pub(crate) use watch::watch;

/// How many runs are under way at once, and how long others may wait for their place without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLimits {
    pub main: usize,
    pub cron: usize,
    pub subagent: usize,
    pub nested: usize,
    /// Sessions that a lane remembers while they wait; the rest waits in the store until these are through.
    pub remembered: usize,
    /// `None`: nobody is told how long anything waits.
    pub warn_after: Option<Duration>,
}

impl Default for LaneLimits {
    fn default() -> Self {
        Self {
            main: 64,
            cron: 5,
            subagent: 3,
            nested: 2,
            remembered: 4096,
            warn_after: Some(Duration::from_secs(2)),
        }
    }
}

impl LaneLimits {
    fn of(&self, lane: Lane) -> usize {
        match lane {
            Lane::Main => self.main,
            Lane::Cron => self.cron,
            Lane::Subagent => self.subagent,
            Lane::Nested => self.nested,
        }
    }
}

/// How a lane stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneReport {
    pub lane: Lane,
    pub limit: usize,
    /// Places that are taken.
    pub running: usize,
    /// Runs that could begin or go on if there were a place.
    pub waiting: usize,
    pub oldest_wait: Option<Duration>,
    /// How long runs waited before they began; as many as began.
    pub waits: Waits,
    /// Runs that waited for longer than they should.
    pub warnings: u64,
    /// How often a session had to be left to the store because too many waited.
    pub spilled: u64,
}

/// All lanes. Clones share them.
#[derive(Clone)]
pub(crate) struct Lanes {
    all: Arc<[Arc<Places>; 4]>,
    /// Told that somebody may have a turn.
    turn: Arc<Notify>,
    /// Told that somebody waits.
    waits: Arc<Notify>,
    pub(crate) limits: LaneLimits,
}

struct Places {
    lane: Lane,
    book: Mutex<Book<oneshot::Sender<Permit>>>,
    tally: Tally,
    turn: Arc<Notify>,
}

impl Places {
    fn book(&self) -> MutexGuard<'_, Book<oneshot::Sender<Permit>>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, waited: Duration) -> Permit {
        Permit { places: Arc::clone(self), waited, alone: None }
    }
}

/// A place in a lane, given back when it is dropped.
pub(crate) struct Permit {
    places: Arc<Places>,
    /// For how long somebody waited for it.
    waited: Duration,
    /// No other run on its last try is under way beside this one.
    alone: Option<OwnedSemaphorePermit>,
}

impl Permit {
    pub(crate) fn lane(&self) -> Lane {
        self.places.lane
    }

    /// Counts the run that begins with it.
    pub(crate) fn begins(&self) {
        self.places.tally.began(self.waited);
    }

    /// The same place for a run that is to be the only one of its kind.
    pub(crate) fn alone(mut self, alone: OwnedSemaphorePermit) -> Self {
        self.alone = Some(alone);
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut book = self.places.book();
        book.give_back();
        if book.has_turn() {
            self.places.turn.notify_one();
        }
    }
}

impl Lanes {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        let turn = Arc::new(Notify::new());
        let places = |lane| {
            let book = Mutex::new(Book::new(limits.of(lane), limits.remembered));
            Arc::new(Places { lane, book, tally: Tally::default(), turn: Arc::clone(&turn) })
        };
        Self { all: Arc::new(Lane::ALL.map(places)), turn, waits: Arc::new(Notify::new()), limits }
    }

    fn places(&self, lane: Lane) -> &Arc<Places> {
        let [main, cron, subagent, nested] = &*self.all;
        match lane {
            Lane::Main => main,
            Lane::Cron => cron,
            Lane::Subagent => subagent,
            Lane::Nested => nested,
        }
    }

    /// A place if one is free and nobody waits for it.
    pub(crate) fn permit_now(&self, lane: Lane) -> Option<Permit> {
        let places = self.places(lane);
        places.book().take_now().then(|| places.permit(Duration::ZERO))
    }

    /// Waits for a place for a run that goes on; `None` only when there are none any more. Whoever stops waiting is
    /// forgotten at once.
    pub(crate) async fn acquire(&self, lane: Lane, scope: &Scope) -> Option<Permit> {
        let places = self.places(lane);
        let (tell, told) = oneshot::channel();
        let ticket = {
            let mut book = places.book();
            if book.take_now() {
                drop(book);
                return Some(places.permit(Duration::ZERO));
            }
            book.wait_to_go_on(scope, tell, Instant::now())?
        };
        // A place may have been free behind others.
        self.turn.notify_one();
        let _forgets = Forgets { places, scope, ticket };
        told.await.ok()
    }

    /// Notes that the session has a run that could begin.
    pub(crate) fn wait(&self, lane: Lane, key: SessionKey, run: Option<RunId>) {
        let places = self.places(lane);
        let mut book = places.book();
        if !book.wait_to_begin(key, run, Instant::now()) {
            places.tally.spilled();
        }
        if book.has_turn() {
            self.turn.notify_one();
        }
        drop(book);
        self.waits.notify_one();
    }

    /// A run that waited for its turn has ended.
    pub(crate) fn ended(&self, key: &SessionKey, run: RunId) {
        for places in self.all.iter() {
            places.book().ended(key, run);
        }
    }

    /// Returns when somebody may have a turn.
    pub(crate) async fn turn(&self) {
        self.turn.notified().await;
    }

    /// The next session of any lane that may begin, with its place. Runs that go on are told on the way.
    pub(crate) fn next(&self) -> Option<(Waiter, Permit)> {
        self.all.iter().find_map(Places::next)
    }

    /// Nothing begins any more; what is under way may go on.
    pub(crate) fn dismiss(&self) {
        self.all.iter().for_each(|places| places.book().dismiss());
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.all.iter().all(|places| places.book().is_idle())
    }

    /// The lanes for which the store is to be asked who else waits. A full one must not keep the others from being
    /// looked after.
    pub(crate) fn wanting(&self) -> Vec<Lane> {
        let wanting = self.all.iter().filter(|places| places.book().wants_more());
        wanting.map(|places| places.lane).collect()
    }

    /// Whether the store keeps sessions for which there is room again.
    pub(crate) fn is_short(&self) -> bool {
        self.all.iter().any(|places| places.book().is_short())
    }

    /// The store told who waits in these lanes, or only the beginning of it.
    pub(crate) fn refilled(&self, lanes: &[Lane], whole: bool) {
        for lane in lanes {
            let mut book = self.places(*lane).book();
            book.refilled();
            if !whole {
                book.note_more();
            }
        }
    }

    pub(crate) fn report(&self) -> Vec<LaneReport> {
        let now = Instant::now();
        let report = |places: &Arc<Places>| {
            let standing = places.book().standing();
            LaneReport {
                lane: places.lane,
                limit: standing.limit,
                running: standing.taken,
                waiting: standing.waiting,
                oldest_wait: standing.oldest.map(|since| now.saturating_duration_since(since)),
                waits: places.tally.waits(),
                warnings: places.tally.warnings(),
                spilled: places.tally.spills(),
            }
        };
        self.all.iter().map(report).collect()
    }

    /// Those who have waited for too long and of whom nobody was told yet.
    fn late(&self, lane: Lane, since: Instant) -> Vec<Late> {
        let places = self.places(lane);
        let late = places.book().late(since);
        places.tally.warned(late.len());
        late
    }
}

impl Places {
    fn next(self: &Arc<Self>) -> Option<(Waiter, Permit)> {
        loop {
            let turn = self.book().next()?;
            match turn {
                Turn::Begins(waiter) => {
                    let permit = self.permit(waiter.since.elapsed());
                    return Some((waiter, permit));
                }
                // If it is gone, its place comes back by itself.
                Turn::GoesOn { tell, since } => drop(tell.send(self.permit(since.elapsed()))),
            }
        }
    }
}

/// Somebody waits to go on; gone with whoever waits.
struct Forgets<'a> {
    places: &'a Arc<Places>,
    scope: &'a Scope,
    ticket: fair::Ticket,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.places.book().forget(self.scope, self.ticket);
    }
}
