//! Time, passed in: nothing else reads the machine's clock.
//!
//! Wall time labels things for people. It may jump; so order comes from sequence numbers, and waiting is measured by
//! timers that do not follow it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(crate::fault::clock_skew_ms())
    }
}

/// `2026-02-23T17:07:31.123Z`, always with milliseconds.
pub fn iso_timestamp(unix_ms: i64) -> String {
    let timestamp = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_always_shows_milliseconds() {
        assert_eq!(iso_timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_timestamp(1_771_866_451_120), "2026-02-23T17:07:31.120Z");
        assert_eq!(iso_timestamp(i64::MAX), "1970-01-01T00:00:00.000Z");
    }
}
