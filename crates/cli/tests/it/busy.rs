//! A second process on the same home: it joins the first, or waits and then says who is there. Reading goes on beside it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::home::{Backend, Home};
use crate::log::Log;
use crate::process::Running;

/// An `ask` that holds the home until it is told to end. The home has one answered question before that.
fn holder(home: &Home) -> Running {
    home.ask("before");
    let running = home.call(&["ask", "holds"]).env("TIDEGATE_FAULT", "models.offline.start=hang").start();
    let start = Instant::now();
    while home.runs().len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(20), "the holder never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

/// A process that holds the home and does not answer.
fn stuck(home: &Home) -> Running {
    home.ask("before");
    let running = home.call(&["ask", "holds"]).env("TIDEGATE_FAULT", "engine.start.locked=hang").start();
    let start = Instant::now();
    while home.call(&["status", "--json"]).json()["holder"].is_null() {
        assert!(start.elapsed() < Duration::from_secs(20), "the holder never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

fn a_second_process_is_told(backend: Backend) {
    let Some(home) = Home::on(backend) else { return };
    let first = stuck(&home);
    let by = format!("process {} (ask)", first.pid());
    let start = Instant::now();
    let failed = home.call(&["ask", "second"]).env("TIDEGATE_LOCK_WAIT_MS", "200").fails("HOME_BUSY");
    assert!(start.elapsed() >= Duration::from_millis(200), "it waited first");
    assert!(failed.message.contains(&by), "{failed:?}");
    assert!(failed.message.contains(home.root().to_str().unwrap()), "{failed:?}");
    assert!(failed.stderr.contains("--home <dir>"), "what to do about it: {failed:?}");
    let busy = home.call(&["sessions", "delete", "main", "--yes"]).env("TIDEGATE_LOCK_WAIT_MS", "200").run();
    assert_eq!(busy.code, Some(1), "{busy:?}");
    let told = home.call(&["status", "--json"]).json();
    assert_eq!(told["holder"], by);
    assert!(home.call(&["status"]).ok().stdout.contains(&format!("in use by  {by}")));
    home.call(&["sessions", "list"]).ok();
    first.signal(Signal::KILL);
    first.wait();
    assert!(home.call(&["status", "--json"]).json()["holder"].is_null());
    home.ask("third");
    assert_eq!(Log::of(&home, "main").questions(), ["before", "third"], "what was refused is nowhere");
}

#[test]
fn a_second_process_joins_the_first_one_and_other_sessions_are_answered_at_once() {
    let home = Home::new();
    let first = holder(&home);
    let start = Instant::now();
    assert_eq!(home.ask_in("elsewhere", "meanwhile")["success"], true);
    assert!(start.elapsed() < Duration::from_secs(25), "it did not wait for the first one");
    home.call(&["sessions", "delete", "main", "--yes"]).fails("SESSION_BUSY");
    home.call(&["ask", "behind it"]).fails("SESSION_BUSY");
    first.signal(Signal::TERM);
    first.wait().failed(143, "ABORTED");
    assert_eq!(Log::of(&home, "main").questions(), ["before"]);
    assert_eq!(Log::of(&home, "elsewhere").questions(), ["meanwhile"]);
}

#[test]
fn a_second_process_is_told_who_holds_the_home_on_sqlite() {
    a_second_process_is_told(Backend::Sqlite);
}

#[test]
fn a_second_process_is_told_who_holds_the_home_on_postgres() {
    a_second_process_is_told(Backend::Postgres);
}

#[test]
fn a_second_process_gets_its_turn_when_the_first_one_ends_or_dies() {
    for signal in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        let first = holder(&home);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| home.ask("second"));
            std::thread::sleep(Duration::from_millis(200));
            first.signal(signal);
            first.wait();
            assert_eq!(second.join().unwrap()["success"], true);
        });
        assert_eq!(Log::of(&home, "main").questions(), ["before", "second"]);
    }
}

#[test]
fn a_lock_file_left_behind_holds_nothing() {
    let home = Home::new();
    home.ask("one");
    fs::write(home.root().join("service/home.lock"), "1 ask").unwrap();
    assert!(home.call(&["status", "--json"]).json()["holder"].is_null());
    home.call(&["ask", "two"]).env("TIDEGATE_LOCK_WAIT_MS", "0").ok();
    fs::remove_file(home.root().join("service/home.lock")).unwrap();
    home.ask("three");
    assert_eq!(Log::of(&home, "main").turns(), 3);
}

#[test]
fn two_homes_on_one_postgres_schema_wait_for_each_others_session() {
    let Some(home) = Home::on(Backend::Postgres) else { return };
    let other = Home::new();
    other.write_config(&home.read_config());
    let first = holder(&home);
    let second = other.call(&["ask", "second"]).start();
    std::thread::sleep(Duration::from_millis(500));
    first.signal(Signal::TERM);
    first.wait().failed(143, "ABORTED");
    let done = second.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    let log = Log::without_transcript(&home, "main");
    assert_eq!(log.questions(), ["before", "second"]);
}

#[test]
fn ctrl_c_while_waiting_for_the_session_is_an_abort() {
    let Some(home) = Home::on(Backend::Postgres) else { return };
    let other = Home::new();
    other.write_config(&home.read_config());
    let first = holder(&home);
    let second = other.call(&["ask", "second"]).start();
    let start = Instant::now();
    while !home.runs().iter().any(|run| run["state"] == "queued") {
        assert!(start.elapsed() < Duration::from_secs(20), "the second was never queued");
        std::thread::sleep(Duration::from_millis(10));
    }
    second.signal(Signal::INT);
    second.wait().failed(130, "ABORTED");
    first.signal(Signal::TERM);
    first.wait();
    let states: Vec<_> = home.runs().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, ["completed", "aborted", "aborted"]);
}
