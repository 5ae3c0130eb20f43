//! Who waits for long: a line in the log with who holds the places, and an event for whoever watches.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_protocol::Lane;

use super::Late;
use crate::events::{EngineEvent, LaneWait};
use crate::start::Core;

/// How often it is looked, in parts of the time that is too long.
const LOOKS: u32 = 4;
/// Between two looks at most and at least.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Lines of a lane in one window; the others are counted in one more.
const LINES: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);
/// Conversations that are named in a line.
const NAMED: usize = 5;

/// Watches the lanes until the engine stops.
pub(crate) async fn watch(core: Arc<Core>) {
    let Some(limit) = core.scheduler.lanes().limits.warn_after else { return };
    let pause = (limit / LOOKS).clamp(BETWEEN.0, BETWEEN.1);
    let mut lines = Lane::ALL.map(|_| Lines::new(Instant::now()));
    loop {
        // While nobody waits nobody looks.
        while core.scheduler.lanes().is_idle() && lines.iter().all(|lines| lines.unsaid == 0) {
            tokio::select! {
                () = core.scheduler.lanes().waits.notified() => {}
                () = core.stopped.requested() => return,
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = core.stopped.requested() => return,
        }
        let now = Instant::now();
        let Some(since) = now.checked_sub(limit) else { continue };
        for (lane, lines) in Lane::ALL.into_iter().zip(&mut lines) {
            let late = core.scheduler.lanes().late(lane, since);
            core.tell_late(lane, &late, lines, now);
        }
    }
}

impl Core {
    fn tell_late(&self, lane: Lane, late: &[Late], lines: &mut Lines, now: Instant) {
        if let Some(unsaid) = lines.turn(now) {
            tracing::warn!(%lane, runs = unsaid, "more runs wait for a place in this lane for long");
        }
        if late.is_empty() {
            return;
        }
        let holders = self.holders(lane);
        for Late { waiter, ahead } in late {
            let waited_ms = u64::try_from(waiter.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            if lines.may_say() {
                let run = waiter.run.map(|run| run.to_string()).unwrap_or_default();
                tracing::warn!(
                    %lane, run, session = %waiter.key, ahead, waited_ms, holders,
                    "a run waits for a place in its lane; see `lanes` in the configuration"
                );
            }
            let Some(run) = waiter.run else { continue };
            self.bus.publish(|| {
                EngineEvent::Waits(LaneWait { key: waiter.key.clone(), run, lane, ahead: *ahead, waited_ms })
            });
        }
    }

    /// The conversations whose runs hold the places of a lane, the first few by name.
    fn holders(&self, lane: Lane) -> String {
        let mut holders = self.live.holding(lane);
        holders.sort();
        let more = holders.len().saturating_sub(NAMED);
        holders.truncate(NAMED);
        let mut told = holders.join(", ");
        if more > 0 {
            let _ = write!(told, " and {more} more");
        }
        told
    }
}

/// How many lines may still be written.
struct Lines {
    since: Instant,
    said: usize,
    unsaid: usize,
}

impl Lines {
    fn new(now: Instant) -> Self {
        Self { since: now, said: 0, unsaid: 0 }
    }

    /// Begins a new window when the last one is over; how many lines that one left out.
    fn turn(&mut self, now: Instant) -> Option<usize> {
        if now.saturating_duration_since(self.since) < WINDOW {
            return None;
        }
        let unsaid = self.unsaid;
        *self = Self::new(now);
        (unsaid > 0).then_some(unsaid)
    }

    fn may_say(&mut self) -> bool {
        let may = self.said < LINES;
        if may {
            self.said += 1;
        } else {
            self.unsaid += 1;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_ten_lines_and_one_that_counts_the_others() {
        let begin = Instant::now();
        let mut lines = Lines::new(begin);
        let said = (0..1_000).filter(|_| lines.may_say()).count();
        assert_eq!(said, LINES);
        assert_eq!(lines.turn(begin + WINDOW / 2), None);
        assert_eq!(lines.turn(begin + WINDOW), Some(990));
        assert!(lines.may_say());
        assert_eq!(lines.turn(begin + WINDOW * 2), None);
    }
}
