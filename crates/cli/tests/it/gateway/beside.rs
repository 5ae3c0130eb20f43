//! A hundred commands beside a live gateway that has work of its own: none notices the others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::homes::{account, settled, with_channels};
use super::live::Live;
use crate::home::{Backend, Home};
use crate::log::Log;

/// Commands that run at the same time; each worker runs its share one after the other.
const WORKERS: usize = 12;
const ROUNDS: usize = 2;
const PEERS: [&str; 3] = ["ann", "bob", "cem"];
const LINES: usize = 8;
const REQUESTS: usize = 12;

/// What one worker does in a round: an ask, and one of everything that only reads.
fn round(home: &Home, worker: usize, round: usize, count: &AtomicUsize) -> Value {
    let session = format!("s{}", worker % 4);
    let text = format!("question {worker}.{round}");
    let answer = home.ask_in(&session, &text);
    assert_eq!(answer["success"], true);
    for words in [
        ["status", "--json"].as_slice(),
        &["sessions", "list", "--json"],
        &["runs", "list", "--json"],
        &["audit", "verify", "--json"],
        &["outbox", "list", "--json"],
    ] {
        let done = home.call(words).ok();
        assert!(!done.stderr.contains("lock"), "{done:?}");
        done.json();
        count.fetch_add(1, Ordering::Relaxed);
    }
    count.fetch_add(1, Ordering::Relaxed);
    answer
}

fn a_hundred_commands(backend: Backend) {
    let Some(home) = with_channels(backend) else { return };
    let live = Live::start(&home);
    let (default, count) = (account(&home, "default"), AtomicUsize::new(0));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..LINES {
                for peer in PEERS {
                    default.say(peer, &format!("{peer} {at}"));
                }
            }
        });
        let web = scope.spawn(|| {
            (0..REQUESTS).map(|at| live.chat(&format!("web {at}"))).for_each(|answer| {
                assert_eq!(answer.status, 200, "{answer:?}");
            });
        });
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (home, count) = (&home, &count);
                scope.spawn(move || (0..ROUNDS).map(|at| round(home, worker, at, count)).collect::<Vec<_>>())
            })
            .collect();
        web.join().expect("every request is answered");
        workers.into_iter().flat_map(|worker| worker.join().expect("no command fails")).collect()
    });
    assert!(count.into_inner() >= 100, "a hundred commands were run");
    default.wait_for(LINES * PEERS.len());
    for peer in PEERS {
        let expected: Vec<_> = (0..LINES).map(|at| format!("{peer} {at}")).collect();
        assert_eq!(default.answered(peer), expected);
    }
    live.end();
    let mut told: Vec<_> = answers.iter().map(|answer| answer["result"].as_str().unwrap()).collect();
    let logs: Vec<_> = (0..4).map(|at| Log::of(&home, &format!("s{at}"))).collect();
    let mut kept: Vec<_> = logs.iter().flat_map(Log::answers).collect();
    told.sort_unstable();
    kept.sort_unstable();
    assert_eq!(told, kept, "every answer printed is in its log, once");
    let asked: BTreeSet<_> = logs.iter().flat_map(Log::questions).collect();
    assert_eq!(asked.len(), WORKERS * ROUNDS);
    assert_eq!(home.runs().len(), WORKERS * ROUNDS + LINES * PEERS.len() + REQUESTS);
    settled(&home);
}

#[test]
fn a_hundred_commands_beside_a_busy_gateway_all_succeed_on_sqlite() {
    a_hundred_commands(Backend::Sqlite);
}

#[test]
fn a_hundred_commands_beside_a_busy_gateway_all_succeed_on_postgres() {
    a_hundred_commands(Backend::Postgres);
}
