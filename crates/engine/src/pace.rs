//! A run's time and its place in a lane. Both stand still while it waits for somebody.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_protocol::{Lane, Scope};
use tokio::sync::watch;

use crate::lanes::{Lanes, Permit};

/// How often a run that works for long writes down how long: so much of its time is not written down at most.
const TICK: Duration = Duration::from_secs(5);
/// In how many parts a short time is divided for that.
const TICKS: u32 = 20;

/// How long a run may work without a note of it.
pub(crate) fn tick(limit: Duration) -> Duration {
    (limit / TICKS).min(TICK)
}

/// What a run has used of its time when an attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// As it was written down.
    noted: Duration,
    /// What a process did in its last moments is written nowhere: each of those that died counts as a whole tick, so that
    /// all attempts together never take longer than one may.
    in_doubt: Duration,
}

impl Used {
    pub(crate) fn before(worked_ms: u64, attempt: u32, limit: Duration) -> Self {
        let crashes = attempt.saturating_sub(1);
        let noted = Duration::from_millis(worked_ms);
        Self { noted, in_doubt: tick(limit).saturating_mul(crashes) }
    }
}

/// How long a run has worked, in all its attempts, and what it holds meanwhile.
pub(crate) struct Pace {
    lanes: Lanes,
    /// Whose it is, for its turn when it goes on.
    scope: Scope,
    /// Part of what it has worked that no note is to have: the next attempt counts the crashes itself.
    in_doubt: Duration,
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
    /// `used`: by earlier attempts.
    pub(crate) fn new(lanes: Lanes, scope: Scope, permit: Permit, used: Used) -> Self {
        let worked = used.noted.saturating_add(used.in_doubt);
        let state = State { permit: Some(permit), waits: 0, worked, since: Some(Instant::now()) };
        Self {
            lanes,
            scope,
            in_doubt: used.in_doubt,
            state: Mutex::new(state),
            changed: watch::Sender::new(false),
        }
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
            let permit = self.lanes.acquire(lane, &self.scope).await;
            self.state().permit = permit;
        }
        outcome
    }

    /// Answers the lane to come back to, for the first of those who wait.
    fn pause(&self) -> Option<Lane> {
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

    /// The lane in which it holds a place now.
    pub(crate) fn holds(&self) -> Option<Lane> {
        self.state().permit.as_ref().map(Permit::lane)
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

    /// Returns once the run has worked for a whole tick longer than it had at the last note; what the next one is to say.
    pub(crate) async fn ticks(&self, noted: Duration, tick: Duration) -> Duration {
        self.exceeds(noted.saturating_add(self.in_doubt).saturating_add(tick)).await;
        self.to_note()
    }

    /// How long the run has worked, for its next attempt to know.
    pub(crate) fn to_note(&self) -> Duration {
        self.worked().saturating_sub(self.in_doubt)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::LaneLimits;

    #[test]
    fn an_attempt_begins_where_the_ones_before_it_ended_at_the_latest() {
        let used = |worked_ms, attempt| {
            let used = Used::before(worked_ms, attempt, Duration::from_mins(10));
            (used.noted.as_secs(), used.in_doubt.as_secs())
        };
        assert_eq!([used(0, 1), used(90_000, 1)], [(0, 0), (90, 0)], "given back, nothing is in doubt");
        assert_eq!([used(0, 2), used(90_000, 2), used(90_000, 3)], [(0, 5), (90, 5), (90, 10)]);
    }

    #[tokio::test]
    async fn a_note_says_what_was_worked_and_the_deadline_counts_what_is_in_doubt_too() {
        let (lanes, scope) = (Lanes::new(LaneLimits::default()), Scope::personal("main".parse().unwrap()));
        let permit = lanes.acquire(Lane::Main, &scope).await.unwrap();
        let used = Used { noted: Duration::from_secs(90), in_doubt: Duration::from_secs(5) };
        let pace = Pace::new(lanes, scope, permit, used);
        assert!(pace.worked() >= Duration::from_secs(95));
        let noted = pace.to_note();
        assert!(noted >= Duration::from_secs(90) && noted < Duration::from_secs(95), "{noted:?}");
        let next = pace.ticks(noted, Duration::from_millis(20)).await;
        assert!(next >= noted + Duration::from_millis(20), "{next:?}");
        pace.exceeds(Duration::from_secs(95)).await;
    }

    #[test]
    fn little_time_is_noted_more_often() {
        assert_eq!(tick(Duration::from_hours(1)), TICK);
        assert_eq!(tick(Duration::from_secs(10)), Duration::from_millis(500));
        assert_eq!(tick(Duration::ZERO), Duration::ZERO);
    }
}
