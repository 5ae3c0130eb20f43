//! A model that never answers, a panic, a signal: the run ends, the session goes on.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::home::{Backend, Home};
use crate::log::Log;

/// The last run ended like this, nothing of it is in the conversation, and the next question works.
fn ended(home: &Home, state: &str, code: &str) {
    let run = home.runs().pop().expect("the run is there");
    assert_eq!(run["state"], state, "{run}");
    assert_eq!(run["error"]["code"], code, "{run}");
    assert!(!run["finishedAt"].is_null(), "{run}");
    let done = home.call(&["ask", "next"]).ok();
    assert_eq!(done.stderr, "", "nothing was left to settle: {done:?}");
    assert_eq!(Log::of(home, "main").questions(), ["before", "next"]);
}

fn wedged(backend: Backend, fault: &str) {
    let Some(home) = Home::on(backend) else { return };
    home.ask("before");
    let start = Instant::now();
    let failed = home
        .call(&["ask", "--timeout", "0.3", "never answered"])
        .env("TIDEGATE_FAULT", fault)
        .fails("DEADLINE_EXCEEDED");
    assert!(start.elapsed() < Duration::from_secs(10), "it took {:?}", start.elapsed());
    assert_eq!(failed.message, "the model gave no complete answer within 0.3 s");
    assert!(failed.stderr.contains("--timeout"), "how to give it more time: {failed:?}");
    ended(&home, "failed", "DEADLINE_EXCEEDED");
}

#[test]
fn a_model_that_never_answers_ends_at_the_deadline_on_sqlite() {
    wedged(Backend::Sqlite, "models.offline.start=hang");
}

#[test]
fn a_model_that_never_answers_ends_at_the_deadline_on_postgres() {
    wedged(Backend::Postgres, "models.offline.start=hang");
}

#[test]
fn a_model_that_stops_in_the_middle_ends_at_the_deadline_and_its_words_are_not_kept() {
    wedged(Backend::Sqlite, "models.offline.delta=hang@2");
}

#[test]
fn the_deadline_of_the_configuration_holds_without_an_option() {
    let home = Home::new();
    home.write_config("{ agents: { defaults: { timeoutSeconds: 1 } } }");
    home.ask("before");
    let failed = home
        .call(&["ask", "x"])
        .env("TIDEGATE_FAULT", "models.offline.start=hang")
        .fails("DEADLINE_EXCEEDED");
    assert!(failed.message.ends_with("within 1 s"), "{failed:?}");
    ended(&home, "failed", "DEADLINE_EXCEEDED");
}

fn panics(backend: Backend, fault: &str) {
    let Some(home) = Home::on(backend) else { return };
    home.ask("before");
    let done = home.call(&["ask", "makes it panic"]).env("TIDEGATE_FAULT", fault).run();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("[INTERNAL] "), "{done:?}");
    assert_eq!(done.json()["error"]["code"], "INTERNAL");
    ended(&home, "failed", "INTERNAL");
}

#[test]
fn a_panic_inside_a_run_is_the_end_of_that_run_only_on_sqlite() {
    panics(Backend::Sqlite, "models.offline.start=panic");
    panics(Backend::Sqlite, "models.offline.delta=panic@2");
}

#[test]
fn a_panic_inside_a_run_is_the_end_of_that_run_only_on_postgres() {
    panics(Backend::Postgres, "models.offline.start=panic");
}

#[test]
fn a_panic_is_told_in_a_sentence_and_not_as_a_dump() {
    let home = Home::new();
    let failed =
        home.call(&["ask", "x"]).env("TIDEGATE_FAULT", "models.offline.start=panic").fails("INTERNAL");
    assert!(!failed.message.is_empty());
}

/// Waits until the run is under way: killed before, there would be nothing to abort.
fn until_running(home: &Home) {
    let start = Instant::now();
    while !home.runs().iter().any(|run| run["state"] == "running") {
        assert!(start.elapsed() < Duration::from_secs(20), "the run never began");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signalled(backend: Backend, signal: Signal, exit: i32) {
    let Some(home) = Home::on(backend) else { return };
    home.ask("before");
    let running =
        home.call(&["ask", "interrupted by hand"]).env("TIDEGATE_FAULT", "models.offline.start=hang").start();
    until_running(&home);
    running.signal(signal);
    let failed = running.wait().failed(exit, "ABORTED");
    assert_eq!(failed.message, "interrupted by a signal");
    ended(&home, "aborted", "ABORTED");
}

#[test]
fn ctrl_c_aborts_the_run_and_exits_130_on_sqlite() {
    signalled(Backend::Sqlite, Signal::INT, 130);
}

#[test]
fn ctrl_c_aborts_the_run_and_exits_130_on_postgres() {
    signalled(Backend::Postgres, Signal::INT, 130);
}

#[test]
fn sigterm_aborts_the_run_and_exits_143() {
    signalled(Backend::Sqlite, Signal::TERM, 143);
}

#[test]
fn ctrl_c_while_waiting_behind_another_command_is_an_abort() {
    let home = Home::new();
    home.ask("before");
    let holder = home.call(&["ask", "holds"]).env("TIDEGATE_FAULT", "models.offline.start=hang").start();
    until_running(&home);
    let waiting = home.call(&["ask", "waits"]).start();
    let start = Instant::now();
    while !home.runs().iter().any(|run| run["input"] == "waits") {
        assert!(start.elapsed() < Duration::from_secs(20), "it was never accepted");
        std::thread::sleep(Duration::from_millis(10));
    }
    waiting.signal(Signal::INT);
    waiting.wait().failed(130, "ABORTED");
    holder.signal(Signal::INT);
    holder.wait().failed(130, "ABORTED");
    let states: Vec<_> = home.runs().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, ["completed", "aborted", "aborted"]);
}

#[test]
fn a_process_that_died_is_mentioned_once_by_the_next_one() {
    let home = Home::new();
    home.ask("before");
    let killed = home.call(&["ask", "dies"]).env("TIDEGATE_FAULT", "models.offline.start=kill").run();
    assert_eq!(killed.signal, Some(9));
    let done = home.call(&["ask", "next"]).ok();
    assert!(
        done.stderr.contains("1 earlier run(s)") && done.stderr.contains("--state interrupted"),
        "{done:?}"
    );
    let listed = home.call(&["runs", "list", "--state", "interrupted", "--json"]).json();
    assert_eq!(listed["runs"][0]["input"], "dies");
    assert_eq!(listed["runs"][0]["error"]["code"], "INTERRUPTED");
    assert_eq!(home.call(&["ask", "once"]).ok().stderr, "");
    assert_eq!(Log::of(&home, "main").questions(), ["before", "next", "once"]);
}
