//! Many commands at once in one home: all succeed, all is kept, in order.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::home::{Backend, Home};
use crate::log::Log;

/// Runs every call at the same time, with a loop of reading commands beside them that must never fail.
fn at_once(home: &Home, words: &[Vec<String>]) -> Vec<Value> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            [["status", "--json"].as_slice(), &["sessions", "list", "--json"], &["runs", "list", "--json"]]
                .into_iter()
                .map(|words| {
                    let over = &over;
                    scope.spawn(move || {
                        let mut reads = 0;
                        while !over.load(Ordering::Relaxed) {
                            home.call(words).json();
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
        let asks: Vec<_> = words
            .iter()
            .map(|words| {
                scope.spawn(move || {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    home.call(&words).json()
                })
            })
            .collect();
        // First all of them, so that one that fails does not leave the readers reading for ever.
        let asked: Vec<_> = asks.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("reading beside the asks never fails") > 0);
        }
        asked.into_iter().map(|answer| answer.expect("an ask succeeds")).collect()
    })
}

fn eight_in_one_session(backend: Backend) {
    let Some(home) = Home::on(backend) else { return };
    let words: Vec<_> = (0..8).map(|at| vec!["ask".to_owned(), format!("question {at}")]).collect();
    let answers = at_once(&home, &words);
    let log = Log::of(&home, "main");
    assert_eq!(log.turns(), 8);
    let mut questions = log.questions();
    questions.sort_unstable();
    let expected: Vec<_> = (0..8).map(|at| format!("question {at}")).collect();
    assert_eq!(questions, expected, "each is there once");
    let mut told: Vec<_> = answers.iter().map(|answer| answer["result"].as_str().unwrap()).collect();
    let mut kept = log.answers();
    told.sort_unstable();
    kept.sort_unstable();
    assert_eq!(told, kept, "what was printed is what is kept");
    let runs = home.runs();
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run["state"] == "completed"), "{runs:?}");
}

fn eight_in_eight_sessions(backend: Backend) {
    let Some(home) = Home::on(backend) else { return };
    let words: Vec<_> = (0..8)
        .map(|at| ["ask", "--session", &format!("k{at}"), &format!("q{at}")].map(str::to_owned).to_vec())
        .collect();
    at_once(&home, &words);
    assert_eq!(home.sessions().len(), 8);
    for at in 0..8 {
        assert_eq!(Log::of(&home, &format!("k{at}")).questions(), [format!("q{at}")]);
    }
    assert_eq!(home.runs().len(), 8);
}

#[test]
fn eight_asks_at_once_in_one_session_are_all_kept_in_order_on_sqlite() {
    eight_in_one_session(Backend::Sqlite);
}

#[test]
fn eight_asks_at_once_in_one_session_are_all_kept_in_order_on_postgres() {
    eight_in_one_session(Backend::Postgres);
}

#[test]
fn eight_asks_at_once_in_eight_sessions_are_all_kept_on_sqlite() {
    eight_in_eight_sessions(Backend::Sqlite);
}

#[test]
fn eight_asks_at_once_in_eight_sessions_are_all_kept_on_postgres() {
    eight_in_eight_sessions(Backend::Postgres);
}

#[test]
fn new_sessions_and_deletions_at_once_leave_nothing_torn() {
    let home = Home::new();
    home.ask("begin");
    let mut words: Vec<Vec<String>> = Vec::new();
    for at in 0..4 {
        words.push(["ask", "--new-session", &format!("new {at}")].map(str::to_owned).to_vec());
        words.push(["ask", "--session", "side", &format!("side {at}")].map(str::to_owned).to_vec());
    }
    let mut ids: Vec<_> = at_once(&home, &words)
        .iter()
        .map(|answer| answer["sessionId"].as_str().unwrap().to_owned())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "four new logs of main and one of side");
    for id in &ids {
        Log::of(&home, id);
    }
    assert_eq!(home.sessions().len(), 2, "a name is listed once, with its present log");
    assert_eq!(Log::of(&home, "side").turns(), 4);
    assert_eq!(Log::of(&home, "main").turns(), 1);
    home.call(&["sessions", "delete", "main", "--yes"]).ok();
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn changes_of_the_configuration_at_once_are_all_kept() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for at in 0..6 {
            let home = &home;
            scope.spawn(move || {
                home.call(&["config", "set", &format!("env.vars.KEY_{at}"), &format!("v{at}")]).ok()
            });
        }
    });
    let kept = home.call(&["config", "get", "--show-secrets", "env.vars"]).json();
    assert_eq!(kept.as_object().map(serde_json::Map::len), Some(6), "{kept}");
    assert_eq!(
        home.call(&["config", "revisions", "--json"]).json()["revisions"].as_array().unwrap().len(),
        6
    );
}
