//! Ending what is under way: one run, or all of them, and what they started.

use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_runtime::{Clock as _, SystemClock, iso_timestamp, spawn_thread};
use tidegate_testkit::model_server::{Step, Turn};

use crate::asking_tools::Desk;
use crate::gateway::live::{Live, eventually};
use crate::home::Home;
use crate::process::Running;

/// How long the end of a run may take, in milliseconds, once somebody's wish is known: a second, with room for a loaded
/// machine.
const AT_ONCE: i64 = 5_000;

/// Asks in a session for a command that would sleep for long, and waits until it does.
fn sleeps(desk: &Desk, session: &str) -> (Running, u32) {
    let command = format!("echo $$ > {session}.pid; exec sleep 120");
    desk.vendor.push(Turn::call(&format!("c-{session}"), "exec", json!({"command": command})));
    let running = desk.call(&["--session", session, "sleep"]).start();
    let pid = eventually("the command begins", || {
        std::fs::read_to_string(desk.root.join(format!("{session}.pid"))).ok()?.trim().parse().ok()
    });
    (running, pid)
}

/// A process that ended and was not waited for yet is gone as well.
fn is_gone(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_err() || status.is_ok_and(|status| status.contains(") Z "))
}

fn now() -> i64 {
    SystemClock.now_ms()
}

/// Tells when all of these are gone.
fn watch(pids: &[u32]) -> Receiver<i64> {
    let (tell, told) = channel();
    let pids = pids.to_vec();
    let work = move || {
        let gone = || pids.iter().all(|pid| is_gone(*pid)).then(now);
        let _ = tell.send(eventually("what it started is gone", gone));
    };
    spawn_thread("watch", work).unwrap();
    told
}

/// When the runs ended, as it is stored: the earliest and the latest.
fn ends(home: &Home) -> (String, String) {
    let end = |run: &Value| run["finishedAt"].as_str().map(str::to_owned);
    let ends: Vec<String> = home.runs().iter().filter_map(end).collect();
    (ends.iter().min().unwrap().clone(), ends.iter().max().unwrap().clone())
}

/// The store has the runs' end from the moment somebody ended them. How long it took to start the program that asked
/// for it does not count.
fn took_all_along_at_once(home: &Home, first: &str, gone: i64) {
    let latest = iso_timestamp(gone - AT_ONCE);
    assert!(first > latest.as_str(), "ended at {first}, gone at {}: {:?}", iso_timestamp(gone), home.runs());
}

fn states(home: &Home) -> Vec<String> {
    home.runs().iter().map(|run| run["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_aborted_run_takes_its_command_with_it() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    for round in 0..5 {
        let (running, pid) = sleeps(&desk, &format!("s{round}"));
        let run = desk.home.runs()[round]["id"].as_str().unwrap().to_owned();
        let watched = watch(&[pid]);
        desk.home.call(&["runs", "abort", &run]).ok();
        let gone = watched.recv().unwrap();
        took_all_along_at_once(&desk.home, &ends(&desk.home).1, gone);
        running.wait().failed(1, "ABORTED");
    }
    live.end();
}

#[test]
fn a_question_that_is_interrupted_takes_its_command_with_it() {
    let desk = Desk::trusting();
    let (running, pid) = sleeps(&desk, "alone");
    let (watched, begin) = (watch(&[pid]), now());
    running.signal(Signal::INT);
    running.wait().failed(130, "ABORTED");
    let (_, end) = ends(&desk.home);
    let latest = end.max(iso_timestamp(watched.recv().unwrap()));
    assert!(latest < iso_timestamp(begin + AT_ONCE), "begun at {}, over at {latest}", iso_timestamp(begin));
    assert_eq!(states(&desk.home), ["aborted"]);
}

#[test]
fn stop_ends_everything_that_is_under_way() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    let sleepers = [sleeps(&desk, "one"), sleeps(&desk, "two")];
    let pids: Vec<u32> = sleepers.iter().map(|(_, pid)| *pid).collect();
    let watched = watch(&pids);
    let told = desk.home.call(&["stop", "--json"]).json();
    took_all_along_at_once(&desk.home, &ends(&desk.home).0, watched.recv().unwrap());
    let names = |told: &Value| [0, 1].map(|at| told["stopped"][at]["sessionKey"].clone());
    assert_eq!(names(&told), ["two", "one"], "{told}");
    assert_eq!(told["stopped"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["stopped"][0]["state"], "running");
    for (running, _) in sleepers {
        running.wait().failed(1, "ABORTED");
    }
    assert_eq!(states(&desk.home), ["aborted", "aborted"]);
    assert_eq!(desk.home.call(&["stop"]).ok().stdout, "Nothing is under way.\n");
    live.end();
}

#[test]
fn stop_leaves_other_conversations_alone() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    let (one, first) = sleeps(&desk, "one");
    let (two, second) = sleeps(&desk, "two");
    let told = desk.home.call(&["stop", "--session", "one"]).ok().stdout;
    assert!(told.starts_with("Stopped lc-") && told.contains("(one, running): sleep"), "{told}");
    one.wait().failed(1, "ABORTED");
    eventually("the first is gone", || is_gone(first).then_some(()));
    assert!(!is_gone(second), "the other works on");
    desk.home.call(&["stop", "--agent", "nobody-here"]).fails("NOT_FOUND");
    desk.home.call(&["stop", "--agent", "main"]).ok();
    two.wait().failed(1, "ABORTED");
    live.end();
}

#[test]
fn what_waits_elsewhere_is_not_spoken_of() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    let (one, _) = sleeps(&desk, "one");
    let (two, _) = sleeps(&desk, "two");
    let waits = desk.call(&["--session", "two", "next"]).start();
    eventually("it waits", || (desk.home.runs().len() == 3).then_some(()));
    let told = desk.home.call(&["stop", "--session", "one"]).ok();
    assert_eq!(told.stderr, "", "{told:?}");
    one.wait().failed(1, "ABORTED");
    desk.vendor.push(Turn::say("never said").then(Step::Silence));
    let told = desk.home.call(&["stop", "--session", "two"]).ok();
    assert!(told.stderr.contains("stop --all"), "{told:?}");
    two.wait().failed(1, "ABORTED");
    desk.home.call(&["stop", "--all"]).ok();
    waits.wait().failed(1, "ABORTED");
    live.end();
}

#[test]
fn with_all_what_waits_is_ended_and_never_begins() {
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    let (running, pid) = sleeps(&desk, "main");
    let waits = desk.call(&["--session", "main", "next"]).start();
    eventually("it waits", || (desk.home.runs().len() == 2).then_some(()));
    desk.vendor.push(Turn::say("never said").then(Step::Silence));
    let told: Value = desk.home.call(&["stop", "--all", "--json"]).json();
    assert_eq!(told["stopped"].as_array().unwrap().len(), 2, "{told}");
    running.wait().failed(1, "ABORTED");
    waits.wait().failed(1, "ABORTED");
    eventually("it is gone", || is_gone(pid).then_some(()));
    assert_eq!(states(&desk.home), ["aborted", "aborted"]);
    assert_eq!(desk.vendor.requests().len(), 1, "what waited was not begun");
    live.end();
}

#[test]
fn where_nobody_runs_stop_begins_nothing() {
    let empty = Home::new();
    assert_eq!(empty.call(&["stop"]).ok().stdout, "Nothing is under way.\n");
    assert!(!empty.root().exists(), "looking makes no home");
    let desk = Desk::trusting();
    let live = Live::start(&desk.home);
    desk.vendor.push(Turn::say("I could go on").then(Step::Silence));
    assert!(live.post("main", "work", "k1").is_some());
    desk.vendor.next();
    live.kill();
    let told = desk.home.call(&["stop", "--all", "--json"]).json();
    assert_eq!(told["stopped"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!((states(&desk.home), desk.vendor.requests().len()), (vec!["aborted".to_owned()], 1));
}

/// A question whose subagent works on long after the answer.
fn sends_somebody() -> (Home, Running) {
    let home = Home::new();
    let script = home.around().join("script.json");
    let spawn = json!({"id": "c1", "name": "sessions_spawn", "arguments": {"task": "go and look"}});
    let turns = json!([
        {"when": "that you started", "say": "Then not."},
        {"when": "how many", "calls": [spawn]},
        {"when": "accepted", "say": "I have sent somebody."},
        {"when": "go and look", "say": "this takes much longer than anybody waits", "delayMs": 60_000},
        {"say": "Hello."},
    ]);
    std::fs::write(&script, json!({ "turns": turns }).to_string()).unwrap();
    let config = json!({
        "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
        "models": {"providers": {"demo": {"api": "scripted", "script": script, "models": [{"id": "m"}]}}},
        "tools": {"profile": "full", "highRisk": "allow"},
    });
    home.write_config(&config.to_string());
    let asking = home.call(&["ask", "how many?"]).start();
    eventually("only the subagent works", || (states(&home) == ["completed", "running"]).then_some(()));
    (home, asking)
}

#[test]
fn a_subagent_that_a_question_left_behind_is_ended_at_once() {
    let (home, asking) = sends_somebody();
    let begin = std::time::Instant::now();
    assert_eq!(home.ask_in("other", "hi")["result"], "Hello.", "others are answered meanwhile");
    let told = home.call(&["stop", "--all", "--json"]).json();
    assert_eq!(told["stopped"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(asking.wait().code, Some(0));
    assert!(begin.elapsed().as_millis() < 15_000, "{:?}", begin.elapsed());
    assert!(states(&home).contains(&"aborted".to_owned()), "{:?}", states(&home));
}

#[test]
fn a_subagent_that_a_question_left_behind_can_be_aborted_by_its_id() {
    let (home, asking) = sends_somebody();
    let child = home.runs()[1]["id"].as_str().unwrap().to_owned();
    let begin = std::time::Instant::now();
    home.call(&["runs", "abort", &child]).ok();
    assert!(begin.elapsed().as_millis() < 5_000, "{:?}", begin.elapsed());
    // The conversation is told, and answers.
    assert_eq!(asking.wait().code, Some(0));
}

#[test]
fn a_conversation_that_is_not_there_cannot_be_stopped() {
    let home = Home::new();
    home.ask("hi");
    home.call(&["stop", "--session", "nope"]).fails("NOT_FOUND");
    home.call(&["stop", "--session", "main"]).ok();
}
