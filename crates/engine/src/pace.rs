//! A run's time and its place in a lane. Both stand still while it waits for somebody.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::schedule::{Lanes, Permit};

/// How often a run that works for long writes down how long: so much of its time is not written down at most.
const TICK: Duration = Duration::from_secs(5);
/// In how many parts a short time is divided for that.
const TICKS: u32 = 20;

/// How long a run may work without a note of it.
pub(crate) fn tick(limit: Duration) -> Duration {
    (limit / TICKS).min(TICK)
}

/// What a run has used of its time when this attempt begins. What a process did in its last moments is written nowhere:
/// each of those that died counts as a whole tick more, so that all attempts together never take longer than one may.
pub(crate) fn used_before(worked_ms: u64, attempt: u32, limit: Duration) -> Duration {
    let crashes = attempt.saturating_sub(1);
    Duration::from_millis(worked_ms).saturating_add(tick(limit).saturating_mul(crashes))
}

/// How long a run has worked, in all its attempts, and what it holds meanwhile.
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
    /// `worked`: what earlier attempts used.
    pub(crate) fn new(lanes: Lanes, permit: Permit, worked: Duration) -> Self {
        let state = State { permit: Some(permit), waits: 0, worked, since: Some(Instant::now()) };
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

    /// Returns once the run has worked for longer than `noted` by a whole tick, with how long that is.
    pub(crate) async fn ticks(&self, noted: Duration, tick: Duration) -> Duration {
        self.exceeds(noted.saturating_add(tick)).await;
        self.worked()
    }

    pub(crate) fn worked(&self) -> Duration {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_begins_where_the_ones_before_it_ended_at_the_latest() {
        let limit = Duration::from_mins(10);
        let used = |worked_ms, attempt| used_before(worked_ms, attempt, limit).as_secs();
        assert_eq!([used(0, 1), used(90_000, 1)], [0, 90], "given back in good order, nothing is unknown");
        assert_eq!([used(0, 2), used(90_000, 2), used(90_000, 3)], [5, 95, 100]);
    }

    #[test]
    fn little_time_is_noted_more_often() {
        assert_eq!(tick(Duration::from_hours(1)), TICK);
        assert_eq!(tick(Duration::from_secs(10)), Duration::from_millis(500));
        assert_eq!(tick(Duration::ZERO), Duration::ZERO);
    }
}
