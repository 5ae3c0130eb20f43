//! A wall clock that jumps: order comes from the log, never from the time of day.

use serde_json::Value;

use crate::home::{Backend, Home};
use crate::log::Log;

const HOUR: i64 = 3_600_000;

fn ask_at(home: &Home, skew: i64, words: &[&str]) -> Value {
    home.call(words).env("TIDEGATE_CLOCK_SKEW_MS", skew.to_string()).json()
}

fn the_order_stands(backend: Backend) {
    let Some(home) = Home::on(backend) else { return };
    let jumps = [0, HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 0];
    for (at, skew) in jumps.into_iter().enumerate() {
        ask_at(&home, skew, &["ask", &format!("q{at}")]);
    }
    let log = Log::of(&home, "main");
    assert_eq!(log.questions(), ["q0", "q1", "q2", "q3", "q4", "q5"]);
    let runs = home.runs();
    assert_eq!(runs.len(), jumps.len());
    assert!(runs.iter().all(|run| run["state"] == "completed"), "{runs:?}");
}

#[test]
fn a_clock_that_jumps_keeps_the_order_on_sqlite() {
    the_order_stands(Backend::Sqlite);
}

#[test]
fn a_clock_that_jumps_keeps_the_order_on_postgres() {
    the_order_stands(Backend::Postgres);
}

#[test]
fn an_ask_that_died_in_the_future_does_not_hold_the_session() {
    let home = Home::new();
    home.ask("one");
    let killed = home
        .call(&["ask", "two"])
        .env("TIDEGATE_CLOCK_SKEW_MS", (48 * HOUR).to_string())
        .env("TIDEGATE_FAULT", "engine.submit.accepted=kill")
        .run();
    assert_eq!(killed.signal, Some(9));
    ask_at(&home, -HOUR, &["ask", "three"]);
    assert_eq!(Log::of(&home, "main").questions(), ["one", "three"]);
    assert!(home.runs().iter().any(|run| run["state"] == "interrupted"));
}

#[test]
fn the_current_session_is_the_newest_made_and_not_the_latest_dated() {
    let home = Home::new();
    let dated_ahead = ask_at(&home, 24 * HOUR, &["ask", "one"]);
    let newest = ask_at(&home, 0, &["ask", "--new-session", "two"]);
    assert_ne!(dated_ahead["sessionId"], newest["sessionId"]);
    assert_eq!(home.ask("three")["sessionId"], newest["sessionId"]);
    assert_eq!(Log::of(&home, "main").questions(), ["two", "three"]);
}

#[test]
fn a_clock_far_off_is_no_crash() {
    let home = Home::new();
    for skew in [i64::MAX, -100 * 365 * 24 * HOUR, 0] {
        let done = home.call(&["ask", "hi"]).env("TIDEGATE_CLOCK_SKEW_MS", skew.to_string()).run();
        assert_eq!(done.code, Some(0), "skew {skew}: {done:?}");
    }
    assert_eq!(Log::of(&home, "main").turns(), 3);
}
