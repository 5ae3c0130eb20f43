//! How long a credential that failed is left alone. Pure: facts and times in, a standing out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::failure::FailureKind;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// A credential that is cooling down and has no substitute is tried again after this long: people should not have to
/// wait an hour for a provider that was back after a minute.
const PROBE_MS: i64 = 2_000;

/// How one credential does, for one model or for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Failures in a row, those for want of credit not among them.
    pub errors: u32,
    pub billing_failures: u32,
    pub reason: Option<FailureKind>,
    /// Milliseconds since the epoch, all of them; 0 for never.
    pub cooldown_until: i64,
    /// For want of credit.
    pub disabled_until: i64,
    pub last_failure_at: i64,
    pub last_used_at: i64,
}

/// The times of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Cooldowns {
    pub billing_backoff: Duration,
    pub billing_backoff_by_provider: BTreeMap<String, Duration>,
    pub billing_max: Duration,
    pub failure_window: Duration,
}

impl Default for Cooldowns {
    fn default() -> Self {
        Self {
            billing_backoff: Duration::from_hours(5),
            billing_backoff_by_provider: BTreeMap::new(),
            billing_max: Duration::from_hours(24),
            failure_window: Duration::from_hours(24),
        }
    }
}

impl Standing {
    /// After one more failure. Only what a credential or its account can be blamed for counts against it.
    pub(crate) fn failed(
        &self,
        provider: &str,
        kind: FailureKind,
        retry_after: Option<Duration>,
        now: i64,
        rules: &Cooldowns,
    ) -> Self {
        if self.is_cooling(now) {
            // Somebody insisted. That it still fails says nothing new, and looking must not make it worse.
            let asked = retry_after.map_or(0, |asked| now + millis(asked));
            let cooldown_until = self.cooldown_until.max(asked);
            return Self { last_failure_at: now, reason: Some(kind), cooldown_until, ..self.clone() };
        }
        let long_ago = now - self.last_failure_at > millis(rules.failure_window);
        let mut next =
            if long_ago { Self { last_used_at: self.last_used_at, ..Self::default() } } else { self.clone() };
        next.last_failure_at = now;
        next.reason = Some(kind);
        if kind == FailureKind::Billing {
            next.billing_failures += 1;
            next.disabled_until = now + billing_ms(provider, next.billing_failures, rules);
        } else {
            next.errors += 1;
            // A provider that says when it is free again knows better than we do.
            next.cooldown_until = now + retry_after.map_or_else(|| cooldown_ms(next.errors), millis);
        }
        next
    }

    /// After a success nothing is held against it.
    pub(crate) fn succeeded(now: i64) -> Self {
        Self { last_used_at: now, ..Self::default() }
    }

    /// Until when it is left alone.
    pub fn until(&self) -> i64 {
        self.cooldown_until.max(self.disabled_until)
    }

    pub fn is_cooling(&self, now: i64) -> bool {
        self.until() > now
    }

    /// Whether it may be tried although it is cooling down, because nothing else is left.
    pub(crate) fn may_probe(&self, now: i64) -> bool {
        now - self.last_failure_at >= PROBE_MS
    }
}

/// 1, 5, 25, then 60 minutes.
pub(crate) fn cooldown_ms(errors: u32) -> i64 {
    let exponent = errors.saturating_sub(1).min(3);
    (MINUTE_MS * 5_i64.pow(exponent)).min(HOUR_MS)
}

/// 5 hours, doubled each time, a day at most.
fn billing_ms(provider: &str, failures: u32, rules: &Cooldowns) -> i64 {
    let base = rules.billing_backoff_by_provider.get(provider).unwrap_or(&rules.billing_backoff);
    let base = millis(*base).max(MINUTE_MS);
    let doubled = base.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(millis(rules.billing_max).max(MINUTE_MS))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(standing: &Standing, kind: FailureKind, now: i64) -> Standing {
        standing.failed("p", kind, None, now, &Cooldowns::default())
    }

    #[test]
    fn the_recorded_cooldowns_hold() {
        for (errors, ms) in [(0, 60_000), (2, 300_000), (4, 3_600_000), (9, 3_600_000)] {
            assert_eq!(cooldown_ms(errors), ms);
        }
    }

    #[test]
    fn each_failure_in_a_row_waits_five_times_as_long_up_to_an_hour() {
        let mut standing = Standing::default();
        let mut now = 1_000_000;
        for minutes in [1, 5, 25, 60, 60] {
            standing = fail(&standing, FailureKind::RateLimit, now);
            assert_eq!(standing.until(), now + minutes * MINUTE_MS);
            now = standing.until();
        }
    }

    #[test]
    fn want_of_credit_waits_five_hours_doubled_up_to_a_day() {
        let mut standing = Standing::default();
        let mut now = 1_000_000;
        for hours in [5, 10, 20, 24, 24] {
            standing = fail(&standing, FailureKind::Billing, now);
            assert_eq!(standing.until(), now + hours * HOUR_MS);
            assert_eq!(standing.errors, 0);
            now = standing.until();
        }
    }

    #[test]
    fn a_day_without_failure_begins_anew_and_a_success_forgives_everything() {
        let bad = fail(&fail(&Standing::default(), FailureKind::Auth, 0), FailureKind::Auth, 1);
        let later = fail(&bad, FailureKind::Auth, 25 * HOUR_MS);
        assert_eq!(later.errors, 1);
        assert_eq!(Standing::succeeded(9), Standing { last_used_at: 9, ..Standing::default() });
    }

    #[test]
    fn looking_again_while_it_rests_does_not_make_it_worse() {
        let once = fail(&Standing::default(), FailureKind::Billing, 1000);
        let again = fail(&fail(&once, FailureKind::Billing, 2000), FailureKind::Auth, 3000);
        assert_eq!((again.until(), again.billing_failures, again.errors), (once.until(), 1, 0));
    }

    #[test]
    fn a_provider_that_says_when_it_is_free_is_believed() {
        let asked = Some(Duration::from_mins(7));
        let standing =
            Standing::default().failed("p", FailureKind::RateLimit, asked, 0, &Cooldowns::default());
        assert_eq!(standing.until(), 7 * MINUTE_MS);
        let soon = Some(Duration::from_secs(9));
        let standing =
            Standing::default().failed("p", FailureKind::RateLimit, soon, 0, &Cooldowns::default());
        assert_eq!(standing.until(), 9000);
    }

    #[test]
    fn a_providers_own_billing_time_counts() {
        let rules = Cooldowns {
            billing_backoff_by_provider: [("p".to_owned(), Duration::from_hours(1))].into(),
            ..Cooldowns::default()
        };
        let standing = Standing::default().failed("p", FailureKind::Billing, None, 0, &rules);
        assert_eq!(standing.until(), HOUR_MS);
    }
}
