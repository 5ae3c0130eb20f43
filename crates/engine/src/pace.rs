//! A run's time and its place in a lane. Both stand still while it waits for somebody.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::schedule::{Lanes, Permit};

/// How long a run has worked, and what it holds meanwhile.
///
/// Every attempt begins at zero: what a process did in its last moments is written nowhere. So a run that takes its process
/// down again and again works for its deadline as often as it is tried, which is
/// [`POISON_CRASHES`](tidegate_storage::POISON_CRASHES) times and no more.
pub(crate) struct Pace {
    lanes: Lanes,
    state: Mutex<State>,
    /// Told that it waits, or goes on.
    changed: watch::Sender<bool>,
}

struct State {
    permit: Option<Permit>,
    /// What it waits for at once.
    waits: usize,
    worked: Duration,
    since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(lanes: Lanes, permit: Permit) -> Self {
        let state =
            State { permit: Some(permit), waits: 0, worked: Duration::ZERO, since: Some(Instant::now()) };
        Self { lanes, state: Mutex::new(state), changed: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for somebody. Meanwhile others may use the lane, and the clock stands still.
    pub(crate) async fn wait<T>(&self, waiting: impl Future<Output = T>) -> T {
        let lane = self.pause();
        // Given back also when whoever waits is dropped half-way.
        let _resume = Resume(self);
        let outcome = waiting.await;
        if let Some(lane) = lane {
            let permit = self.lanes.acquire(lane).await;
            self.state().permit = permit;
        }
        outcome
    }

    /// Answers the lane to come back to, for the first of those who wait.
    fn pause(&self) -> Option<crate::schedule::Lane> {
        let mut state = self.state();
        state.waits += 1;
        if state.waits > 1 {
            return None;
        }
        let since = state.since.take();
        state.worked += since.map(|since| since.elapsed()).unwrap_or_default();
        let lane = state.permit.take().map(|permit| permit.lane());
        drop(state);
        self.changed.send_replace(true);
        lane
    }

    fn resume(&self) {
        let mut state = self.state();
        state.waits -= 1;
        if state.waits == 0 {
            state.since = Some(Instant::now());
            drop(state);
            self.changed.send_replace(false);
        }
    }

    /// Returns once the run has worked for so long.
    pub(crate) async fn exceeds(&self, limit: Duration) {
        let mut changed = self.changed.subscribe();
        loop {
            let waits = *changed.borrow_and_update();
            let left = limit.saturating_sub(self.worked());
            if !waits && left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left), if !waits => {}
                _ = changed.changed() => {}
            }
        }
    }

    fn worked(&self) -> Duration {
        let state = self.state();
        state.worked + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

struct Resume<'a>(&'a Pace);

impl Drop for Resume<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}
