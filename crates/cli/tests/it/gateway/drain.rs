//! Stopping under load: what is under way ends within the budget, the rest goes on after the next start, once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::files::line;
use super::homes::{account, settled, with_config};
use super::http;
use super::live::{Live, eventually};
use crate::home::{Backend, Home};
use crate::log::Log;

const RUNS: usize = 50;

fn slow(home: &Home, delay_ms: u32) -> Live {
    let call = home.call(&["up", "--json", "--port", "0"]);
    Live::with(call.env("TIDEGATE_OFFLINE_DELAY_MS", delay_ms.to_string()), home.root())
}

fn started(live: &Live, count: usize) {
    eventually(&format!("{count} runs under way"), || {
        let status = live.http("GET", "/api/v1/status", &Value::Null).json();
        let runs = status["counts"]["runs"].as_array().cloned().unwrap_or_default();
        let running = runs.iter().find(|row| row["state"] == "running");
        (running.is_some_and(|row| row["count"].as_u64() >= Some(count as u64))).then_some(())
    });
}

/// Fifty peers say something, each in a conversation of its own; half of them a second line.
fn fifty(home: &Home) -> Vec<Value> {
    let mut lines: Vec<_> = (0..RUNS).map(|at| line(&format!("p{at}"), &format!("first {at}"))).collect();
    lines.extend((0..RUNS / 2).map(|at| line(&format!("p{at}"), &format!("second {at}"))));
    account(home, "default").write(&lines);
    lines
}

fn answered_once(home: &Home) {
    let default = account(home, "default");
    default.wait_for(RUNS + RUNS / 2);
    for at in 0..RUNS {
        let mut expected = vec![format!("first {at}")];
        expected.extend((at < RUNS / 2).then(|| format!("second {at}")));
        assert_eq!(default.answered(&format!("p{at}")), expected);
    }
    assert_eq!(default.rows().len(), RUNS + RUNS / 2, "nothing twice");
}

/// SIGTERM while fifty runs are under way, with a budget that is or is not enough.
fn drains(backend: Backend, delay_ms: u32, budget: u32) -> Duration {
    let Some(home) = with_config(backend, &format!("gateway: {{ drainSeconds: {budget} }}")) else {
        return Duration::ZERO;
    };
    let live = slow(&home, delay_ms);
    fifty(&home);
    started(&live, RUNS);
    let begin = Instant::now();
    live.end();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(5 * u64::from(budget)), "{took:?} for a budget of {budget} s");
    let again = Live::start(&home);
    answered_once(&home);
    again.end();
    settled(&home);
    took
}

#[test]
fn fifty_runs_that_cannot_end_in_time_go_on_after_the_next_start_on_sqlite() {
    let took = drains(Backend::Sqlite, 3_000, 1);
    assert!(took >= Duration::from_secs(1), "they had their time: {took:?}");
}

#[test]
fn fifty_runs_that_cannot_end_in_time_go_on_after_the_next_start_on_postgres() {
    drains(Backend::Postgres, 3_000, 1);
}

#[test]
fn fifty_runs_that_can_end_in_time_do() {
    let Some(home) = with_config(Backend::Sqlite, "gateway: { drainSeconds: 30 }") else { return };
    let live = slow(&home, 300);
    fifty(&home);
    started(&live, RUNS);
    live.end();
    let first: BTreeSet<String> = account(&home, "default")
        .rows()
        .iter()
        .map(|row| row["input"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        (0..RUNS).all(|at| first.contains(&format!("first {at}"))),
        "what was under way ended: {first:?}"
    );
    let again = Live::start(&home);
    answered_once(&home);
    again.end();
    settled(&home);
}

#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    for second in [Signal::TERM, Signal::INT] {
        let home = with_config(Backend::Sqlite, "gateway: { drainSeconds: 60 }").unwrap();
        let live = slow(&home, 4_000);
        fifty(&home);
        started(&live, RUNS);
        live.signal(Signal::TERM);
        eventually("it drains", || {
            (live.try_http("GET", "/readyz", &Value::Null)?.status == 503).then_some(())
        });
        let begin = Instant::now();
        live.signal(second);
        let done = live.wait();
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert!(matches!(done.code, Some(130 | 143)), "{done:?}");
        let again = Live::start(&home);
        answered_once(&home);
        again.end();
        settled(&home);
    }
}

#[test]
fn gateway_stop_returns_when_the_gateway_has_ended() {
    let home = with_config(Backend::Sqlite, "gateway: { drainSeconds: 30 }").unwrap();
    let mut live = slow(&home, 300);
    let default = account(&home, "default");
    default.say("p", "under way");
    started(&live, 1);
    let told = home.call(&["gateway", "stop", "--json"]).json();
    assert_eq!((&told["stopped"], &told["running"]), (&json!(true), &json!(false)), "{told}");
    assert_eq!(default.answered("p"), ["under way"], "it was drained before");
    eventually("the process is gone", || (!live.is_there()).then_some(()));
    assert_eq!(live.wait().code, Some(0));
    assert_eq!(home.call(&["gateway", "status", "--json"]).json()["running"], false);
    let again = home.call(&["gateway", "stop", "--json"]).json();
    assert_eq!(again["running"], false, "{again}");
    settled(&home);
}

#[test]
fn a_gateway_that_drains_says_so_and_takes_nothing_new() {
    let home = with_config(Backend::Sqlite, "gateway: { drainSeconds: 20 }").unwrap();
    let live = slow(&home, 800);
    let (default, ready) =
        (account(&home, "default"), |live: &Live| http::request(&live.address, "GET", "/readyz", &[], ""));
    default.say("p", "under way");
    started(&live, 1);
    assert_eq!(ready(&live).unwrap().status, 200);
    live.signal(Signal::TERM);
    let draining = eventually("it drains", || ready(&live).filter(|answer| answer.status == 503));
    assert_eq!(draining.json()["ok"], false, "{draining:?}");
    assert_eq!(http::request(&live.address, "GET", "/healthz", &[], "").unwrap().status, 200, "it lives");
    let chat = live.chat("too late");
    let posted = live.post("main", "too late as well", "key-1").expect("an answer");
    for refused in [chat, posted] {
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "CLOSING", "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "when to come again: {refused:?}");
    }
    default.say("p", "while it drains");
    // A command does not fail: it waits for the home and does its work.
    let answer = home.ask("asked while it drains");
    assert_eq!(answer["success"], true);
    assert_eq!(live.wait().code, Some(0));
    assert_eq!(default.answered("p")[0], "under way");
    let again = Live::start(&home);
    default.wait_for(2);
    assert_eq!(default.answered("p"), ["under way", "while it drains"]);
    again.end();
    assert_eq!(Log::of(&home, "main").questions(), ["asked while it drains"]);
    settled(&home);
}
