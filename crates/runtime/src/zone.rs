//! Days as people in a time zone count them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time zone of the system's own list.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// `Europe/Berlin`, `UTC`; nothing when this system does not know the name.
    pub fn find(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc") {
            return Some(Self::default());
        }
        TimeZone::get(name).ok().map(Self)
    }

    /// What the zone knows about its clocks, for whoever reckons with hours.
    pub fn rules(&self) -> &TimeZone {
        &self.0
    }

    /// Its name, as `find` takes it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// `2026-11-16`.
    pub fn day(&self, unix_ms: i64) -> String {
        let timestamp = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        self.0.to_datetime(timestamp).date().to_string()
    }

    /// When the day began that was this many days before the one of `unix_ms`.
    pub fn start_of_day(&self, unix_ms: i64, days_ago: u32) -> i64 {
        let timestamp = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let today = self.0.to_datetime(timestamp).date();
        let day = today.saturating_sub(jiff::Span::new().days(i64::from(days_ago.min(36_500))));
        day.to_zoned(self.0.clone()).map_or(unix_ms, |start| start.timestamp().as_millisecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T23:30Z.
    const LATE: i64 = 1_794_871_800_000;

    #[test]
    fn a_day_begins_when_it_begins_there() {
        assert_eq!(Zone::default().day(LATE), "2026-11-16");
        if let Some(berlin) = Zone::find("Europe/Berlin") {
            assert_eq!(berlin.day(LATE), "2026-11-17");
            assert_eq!(berlin.start_of_day(LATE, 0), LATE - 30 * 60_000);
        }
        assert_eq!(Zone::default().start_of_day(LATE, 1), LATE - (23 * 60 + 30) * 60_000 - 86_400_000);
        assert_eq!(Zone::find("Nowhere/Atall"), None);
    }
}
