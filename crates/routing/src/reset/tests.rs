//! Resets by the clock and by silence, with the clock changes of three zones written out so that no system file is read.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tidegate_protocol::Scope;

use super::*;

const MINUTE: i64 = 60_000;
const HOURS: i64 = 60 * MINUTE;
const DAYS: i64 = 24 * HOURS;

fn shanghai() -> TimeZone {
    TimeZone::posix("CST-8").unwrap()
}

fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn new_york() -> TimeZone {
    TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap()
}

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn daily(hour: u8) -> ResetPolicy {
    ResetPolicy { daily_hour: Some(hour), idle_minutes: None }
}

fn idle(minutes: u32) -> ResetPolicy {
    ResetPolicy { daily_hour: None, idle_minutes: Some(minutes) }
}

fn is_fresh(policy: ResetPolicy, zone: &TimeZone, used: i64, now: i64) -> bool {
    policy.boundary(now, zone).is_none_or(|boundary| used >= boundary)
}

#[test]
fn four_in_the_morning_is_four_where_the_person_is() {
    let zone = shanghai();
    let used = at("2026-03-01T23:00:00+08:00");
    assert!(is_fresh(daily(4), &zone, used, at("2026-03-02T03:59:00+08:00")));
    assert!(!is_fresh(daily(4), &zone, used, at("2026-03-02T04:01:00+08:00")));
    assert!(is_fresh(daily(4), &zone, at("2026-03-02T04:00:00+08:00"), at("2026-03-03T03:59:59+08:00")));
}

#[test]
fn silence_ends_a_conversation_after_its_minutes() {
    let now = at("2026-03-02T12:00:00Z");
    assert!(is_fresh(idle(240), &TimeZone::UTC, now - 239 * MINUTE, now));
    assert!(is_fresh(idle(240), &TimeZone::UTC, now - 240 * MINUTE, now));
    assert!(!is_fresh(idle(240), &TimeZone::UTC, now - 241 * MINUTE, now));
}

#[test]
fn of_both_whichever_comes_first_ends_it() {
    let both = ResetPolicy { daily_hour: Some(4), idle_minutes: Some(240) };
    let zone = shanghai();
    // Silence is shorter than the day.
    assert!(!is_fresh(both, &zone, at("2026-03-02T10:00:00+08:00"), at("2026-03-02T14:01:00+08:00")));
    // The day ended within the silence that is allowed.
    assert!(!is_fresh(both, &zone, at("2026-03-02T03:58:00+08:00"), at("2026-03-02T04:01:00+08:00")));
    assert!(is_fresh(both, &zone, at("2026-03-02T04:00:30+08:00"), at("2026-03-02T04:01:00+08:00")));
}

#[test]
fn without_a_policy_nothing_ends_by_itself() {
    assert_eq!(ResetPolicy::default().boundary(at("2026-03-02T04:01:00Z"), &TimeZone::UTC), None);
}

/// The recorded cases of the upstream gateway.
#[test]
fn the_recorded_freshness_holds() {
    let now = 1_767_355_200_000;
    assert_eq!(daily(4).boundary(now, &TimeZone::UTC), Some(1_767_326_400_000));
    assert!(is_fresh(daily(4), &TimeZone::UTC, 1_767_351_600_000, now));
    assert!(!is_fresh(idle(60), &TimeZone::UTC, 1_767_351_540_000, now));
}

#[test]
fn an_hour_that_is_skipped_begins_when_the_clocks_jump() {
    let policy = daily(2);
    let now = at("2026-03-29T12:00:00+02:00");
    assert_eq!(policy.boundary(now, &berlin()), Some(at("2026-03-29T01:00:00Z")));
    let now = at("2026-03-08T12:00:00-04:00");
    assert_eq!(policy.boundary(now, &new_york()), Some(at("2026-03-08T07:00:00Z")));
}

#[test]
fn an_hour_that_comes_twice_begins_the_first_time_only() {
    let first = at("2026-10-25T02:00:00+02:00");
    for now in [first, first + 59 * MINUTE, first + HOURS, first + 3 * HOURS] {
        assert_eq!(daily(2).boundary(now, &berlin()), Some(first));
    }
    let first = at("2026-11-01T01:00:00-04:00");
    for now in [first, first + 59 * MINUTE, first + HOURS, first + 3 * HOURS] {
        assert_eq!(daily(1).boundary(now, &new_york()), Some(first));
    }
}

#[test]
fn clocks_that_go_back_over_midnight_do_not_bring_yesterday_back() {
    // On the first Sunday of November at 00:30 it is 23:30 of the Saturday again.
    let zone = TimeZone::posix("AAA5BBB,M3.2.0,M11.1.0/0:30").unwrap();
    let midnight = at("2026-11-01T00:00:00-04:00");
    for now in [midnight, midnight + 29 * MINUTE, midnight + 31 * MINUTE, midnight + 90 * MINUTE] {
        assert_eq!(daily(0).boundary(now, &zone), Some(midnight), "{now}");
    }
}

#[test]
fn an_instant_or_an_hour_that_cannot_be_ends_nothing() {
    assert_eq!(daily(24).boundary(0, &TimeZone::UTC), None);
    assert_eq!(daily(200).boundary(0, &TimeZone::UTC), None);
    assert_eq!(daily(4).boundary(i64::MAX, &TimeZone::UTC), None);
    assert_eq!(idle(1).boundary(i64::MIN, &TimeZone::UTC), Some(i64::MIN));
}

fn key(place: Place, thread: Option<&str>) -> SessionKey {
    let scope = Scope::personal("main".parse().unwrap());
    SessionKey { scope, place, thread: thread.map(str::to_owned) }
}

fn direct() -> SessionKey {
    key(Place::Dm { channel: Some("slack".parse().unwrap()), account: None, peer: "U1".into() }, None)
}

fn group() -> SessionKey {
    key(Place::Group { channel: "slack".parse().unwrap(), id: "C1".into() }, None)
}

/// The recorded cases of the upstream gateway.
#[test]
fn the_recorded_policies_hold() {
    let rules = ResetRules::default();
    assert_eq!((rules.policy(&direct()), rules.policy(&group())), (daily(4), daily(4)));
    let silence = ResetRule { mode: Some(ResetMode::Idle), ..ResetRule::default() };
    let rules = ResetRules { general: silence, ..ResetRules::default() };
    assert_eq!((rules.policy(&direct()), rules.policy(&group())), (idle(60), idle(60)));
    let short = ResetRule { idle_minutes: Some(5), ..silence };
    let rules = ResetRules { by_type: [(Conversation::Group, short)].into(), ..ResetRules::default() };
    assert_eq!((rules.policy(&direct()), rules.policy(&group())), (daily(4), idle(5)));
}

#[test]
fn the_narrowest_rule_says_what_it_says_and_the_wider_ones_the_rest() {
    let rules = ResetRules {
        general: ResetRule { at_hour: Some(6), idle_minutes: Some(90), mode: None },
        by_type: [
            (Conversation::Thread, ResetRule { mode: Some(ResetMode::Off), ..ResetRule::default() }),
            (Conversation::Group, ResetRule { at_hour: Some(7), ..ResetRule::default() }),
        ]
        .into(),
        by_channel: [("slack".to_owned(), ResetRule { idle_minutes: Some(10), ..ResetRule::default() })]
            .into(),
    };
    let policy = |daily_hour, idle_minutes| ResetPolicy { daily_hour, idle_minutes };
    assert_eq!(rules.policy(&key(Place::Main, None)), policy(Some(6), Some(90)));
    assert_eq!(rules.policy(&direct()), policy(Some(6), Some(10)));
    assert_eq!(rules.policy(&group()), policy(Some(7), Some(10)));
    assert_eq!(rules.policy(&SessionKey { thread: Some("1".into()), ..group() }), ResetPolicy::default());
}

#[test]
fn a_thread_is_a_thread_wherever_it_hangs() {
    for (key, expected) in [
        (key(Place::Main, None), Conversation::Direct),
        (key(Place::Named { name: "work".into() }, None), Conversation::Direct),
        (key(Place::Main, Some("1")), Conversation::Thread),
        (SessionKey { thread: Some("1".into()), ..group() }, Conversation::Thread),
        (group(), Conversation::Group),
    ] {
        assert_eq!(Conversation::of(&key), Some(expected), "{key}");
    }
}

#[test]
fn what_a_run_began_for_its_work_does_not_end_at_four() {
    for thread in [None, Some("1")] {
        let key = key(Place::Sub { id: "s1".into() }, thread);
        assert_eq!(ResetRules::default().policy(&key), ResetPolicy::default());
    }
}

fn zone() -> impl Strategy<Value = TimeZone> {
    prop_oneof![Just(TimeZone::UTC), Just(shanghai()), Just(berlin()), Just(new_york())]
}

proptest! {
    #[test]
    fn a_day_has_exactly_one_reset(zone in zone(), hour in 0_u8..24, start in 1_700_000_000_000_i64..1_900_000_000_000) {
        // A quarter of an hour at a time over ten days, from just before one reset to just before another.
        let begin = daily(hour).boundary(start, &zone).unwrap();
        let seen: BTreeSet<_> = (0..10 * 96).map(|step| daily(hour).boundary(begin + step * 15 * MINUTE, &zone)).collect();
        // Ten days of 24 hours may be an hour more or less than ten of the calendar's.
        prop_assert!((10..=11).contains(&seen.len()), "{seen:?}");
        let distances: Vec<_> = seen.iter().zip(seen.iter().skip(1)).map(|(a, b)| b.unwrap() - a.unwrap()).collect();
        prop_assert!(distances.iter().all(|between| (23 * HOURS..=25 * HOURS).contains(between)), "{distances:?}");
    }

    #[test]
    fn a_boundary_is_past_and_never_goes_back(
        zone in zone(),
        hour in proptest::option::of(0_u8..24),
        minutes in proptest::option::of(1_u32..5000),
        now in 0_i64..4_000_000_000_000,
        later in 0_i64..3 * DAYS,
    ) {
        let policy = ResetPolicy { daily_hour: hour, idle_minutes: minutes };
        let (first, second) = (policy.boundary(now, &zone), policy.boundary(now + later, &zone));
        prop_assert_eq!(first.is_some(), hour.is_some() || minutes.is_some());
        prop_assert!(first <= second);
        prop_assert!(first.is_none_or(|first| first <= now && now - first <= 25 * HOURS || hour.is_none()));
    }

    #[test]
    fn two_moments_within_23_hours_have_at_most_one_reset_between_them(
        zone in zone(),
        hour in 0_u8..24,
        now in 1_700_000_000_000_i64..1_900_000_000_000,
        between in proptest::collection::vec(0_i64..23 * HOURS, 1..20),
    ) {
        let seen: BTreeSet<_> = between.iter().map(|after| daily(hour).boundary(now + after, &zone)).collect();
        prop_assert!(seen.len() <= 2, "{seen:?}");
    }
}
