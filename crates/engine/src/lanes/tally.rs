//! What is counted about a lane: how many runs began, how long they had waited, how often that was too long.
//!
//! Only atomics: a run that begins pays for three additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the classes of waiting times, in milliseconds. What is longer is in a class of its own.
pub const WAIT_CLASSES_MS: [u64; 14] =
    [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000];

#[derive(Default)]
pub(super) struct Tally {
    classes: [AtomicU64; WAIT_CLASSES_MS.len() + 1],
    waited_ms: AtomicU64,
    longest_ms: AtomicU64,
    warnings: AtomicU64,
    /// Sessions that were left to the store, or given back to it, because the queue was full.
    spilled: AtomicU64,
}

/// How long runs waited for their place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many runs there were in each class of [`WAIT_CLASSES_MS`], and in the one above.
    pub classes: [u64; WAIT_CLASSES_MS.len() + 1],
    /// All their waiting together.
    pub sum_ms: u64,
    pub longest_ms: u64,
}

impl Tally {
    pub(super) fn began(&self, waited: Duration) {
        let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let class = WAIT_CLASSES_MS.iter().position(|end| ms <= *end).unwrap_or(WAIT_CLASSES_MS.len());
        if let Some(class) = self.classes.get(class) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        if ms > 0 {
            self.waited_ms.fetch_add(ms, Ordering::Relaxed);
            self.longest_ms.fetch_max(ms, Ordering::Relaxed);
        }
    }

    pub(super) fn warned(&self, runs: usize) {
        self.warnings.fetch_add(u64::try_from(runs).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    pub(super) fn spilled(&self) {
        self.spilled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn spills(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    pub(super) fn waits(&self) -> Waits {
        let mut waits = Waits {
            sum_ms: self.waited_ms.load(Ordering::Relaxed),
            longest_ms: self.longest_ms.load(Ordering::Relaxed),
            ..Waits::default()
        };
        for (told, counted) in waits.classes.iter_mut().zip(&self.classes) {
            *told = counted.load(Ordering::Relaxed);
        }
        waits
    }
}

impl Waits {
    /// How many runs began.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// So many percent of the runs waited no longer than this: the end of the class in which the last of them is, and
    /// never more than the longest. `None` before the first run.
    pub fn percentile_ms(&self, percent: u64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = (count * percent.min(100)).div_ceil(100).max(1);
        let mut passed = 0;
        for (runs, end) in self.classes.iter().zip(WAIT_CLASSES_MS) {
            passed += runs;
            if passed >= wanted {
                return Some(end.min(self.longest_ms));
            }
        }
        Some(self.longest_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_classes_and_never_more_than_the_longest() {
        let tally = Tally::default();
        assert_eq!(tally.waits().percentile_ms(50), None);
        for ms in [0, 0, 0, 0, 0, 0, 0, 0, 3, 700] {
            tally.began(Duration::from_millis(ms));
        }
        let waits = tally.waits();
        assert_eq!((waits.count(), waits.sum_ms, waits.longest_ms), (10, 703, 700));
        let told = [50, 80, 90, 99].map(|percent| waits.percentile_ms(percent));
        assert_eq!(told, [Some(1), Some(1), Some(5), Some(700)]);
    }

    #[test]
    fn what_is_longer_than_every_class_is_counted_too() {
        let tally = Tally::default();
        tally.began(Duration::from_hours(1));
        let waits = tally.waits();
        assert_eq!((waits.count(), waits.percentile_ms(50)), (1, Some(3_600_000)));
    }

    #[test]
    fn runs_that_never_waited_have_a_percentile_of_nothing() {
        let tally = Tally::default();
        tally.began(Duration::ZERO);
        assert_eq!(tally.waits().percentile_ms(99), Some(0));
    }
}
