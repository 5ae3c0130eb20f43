//! Commands that meet each other and the gateway: whoever holds the home answers for all, and no question is lost or
//! asked twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::homes::{account, settled, with_channels, with_config};
use super::live::{Live, eventually};
use crate::home::{Backend, Home};
use crate::log::Log;
use crate::process::{Call, Running};

fn slow_ask(home: &Home, session: &str, text: &str, delay_ms: u32) -> Call {
    home.call(&["ask", "--session", session, text]).env("TIDEGATE_OFFLINE_DELAY_MS", delay_ms.to_string())
}

/// Waits until a run with this input is under way.
fn under_way(home: &Home, text: &str) {
    eventually(&format!("{text} is under way"), || {
        let list = home.call(&["runs", "list", "--json"]).run();
        let runs: Value = serde_json::from_str(&list.stdout).ok()?;
        let found =
            runs["runs"].as_array()?.iter().any(|run| run["input"] == text && run["state"] == "running");
        found.then_some(())
    });
}

/// An ask that holds the home and listens. The longer the text, the longer it takes.
fn holder(home: &Home, text: &str, delay_ms: u32) -> Running {
    let holder = slow_ask(home, "holder", text, delay_ms).start();
    under_way(home, text);
    eventually("it listens", || home.root().join("service/control.sock").exists().then_some(()));
    holder
}

#[test]
fn an_ask_beside_another_joins_it_and_does_not_wait_for_its_end() {
    let (home, long) = (Home::new(), "holding ".repeat(200).trim().to_owned());
    let mut holding = holder(&home, &long, 25);
    for at in 0..3 {
        let answer = home.ask_in("other", &format!("joined {at}"));
        assert_eq!(answer["success"], true);
        let done = home.runs().into_iter().find(|run| run["input"] == long.as_str()).expect("it is there");
        assert_eq!(done["state"], "running", "the first one is still at work");
        assert!(holding.is_there());
    }
    let first = holding.wait();
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(Log::of(&home, "other").turns(), 3);
    assert_eq!(Log::of(&home, "holder").questions(), [long]);
    settled(&home);
}

#[test]
fn an_ask_whose_holder_is_killed_is_answered_or_told_and_never_asked_twice() {
    // The delay is the holder's: the joined one is accepted by it and under way, or waits, when it dies.
    for (session, begun) in [("other", true), ("holder", false)] {
        let home = Home::new();
        let holding = holder(&home, "holding", 2_000);
        let joined = home.call(&["ask", "--session", session, "joined"]).start();
        eventually("the holder took it", || {
            home.runs().iter().any(|run| run["input"] == "joined").then_some(())
        });
        if begun {
            under_way(&home, "joined");
        }
        holding.signal(Signal::KILL);
        holding.wait();
        let done = joined.wait();
        let runs = home.runs();
        let completed =
            runs.iter().filter(|run| run["input"] == "joined" && run["state"] == "completed").count();
        if done.code == Some(0) {
            assert_eq!(done.json()["success"], true);
            assert_eq!(completed, 1, "{runs:?}");
        } else {
            assert!(begun, "what had not begun is asked again: {done:?}");
            let failed = done.failed(1, "INTERRUPTED");
            assert!(!failed.message.is_empty());
            assert_eq!(completed, 0, "{runs:?}");
        }
        home.ask_in(session, "after");
        settled(&home);
    }
}

/// Thirty asks at once in five sessions, again and again: all answered, each once, in its log.
fn thirty_at_once(backend: Backend, rounds: usize) {
    let Some(home) = Home::on(backend) else { return };
    for round in 0..rounds {
        std::thread::scope(|scope| {
            for at in 0..30 {
                let home = &home;
                scope.spawn(move || {
                    let answer = home.ask_in(&format!("s{}", at % 5), &format!("q{round}.{at}"));
                    assert_eq!(answer["success"], true);
                });
            }
        });
    }
    for session in 0..5 {
        let log = Log::of(&home, &format!("s{session}"));
        let mut asked = log.questions();
        asked.sort_unstable();
        let mut expected: Vec<_> = (0..rounds)
            .flat_map(|round| (0..30).filter(|at| at % 5 == session).map(move |at| format!("q{round}.{at}")))
            .collect();
        expected.sort_unstable();
        assert_eq!(asked, expected);
    }
    assert!(home.runs().iter().all(|run| run["state"] == "completed"));
    settled(&home);
}

#[test]
fn thirty_asks_at_once_are_all_answered_once_on_sqlite() {
    thirty_at_once(Backend::Sqlite, 3);
}

#[test]
fn thirty_asks_at_once_are_all_answered_once_on_postgres() {
    thirty_at_once(Backend::Postgres, 1);
}

#[test]
fn a_gateway_started_while_an_ask_holds_the_home_waits_for_it() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    account(&home, "default").say("p", "for the gateway");
    let holding = holder(&home, "holding", 600);
    let live = Live::start(&home);
    let first = holding.wait();
    assert_eq!(first.code, Some(0), "{first:?}");
    account(&home, "default").wait_for(1);
    live.end();
    settled(&home);
}

#[test]
fn asks_go_through_while_the_gateway_comes_and_goes() {
    let home = with_config(Backend::Sqlite, "gateway: { drainSeconds: 5 }").expect("SQLite is always there");
    let over = AtomicBool::new(false);
    let asked: BTreeMap<String, usize> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..3)
            .map(|worker| {
                let (home, over) = (&home, &over);
                scope.spawn(move || {
                    let (session, mut asked) = (format!("w{worker}"), 0);
                    while !over.load(Ordering::Relaxed) {
                        assert_eq!(home.ask_in(&session, &format!("q{asked}"))["success"], true);
                        asked += 1;
                    }
                    (session, asked)
                })
            })
            .collect();
        for round in 0..5 {
            account(&home, "default").say("p", &format!("line {round}"));
            let live = Live::start(&home);
            account(&home, "default").wait_for(round + 1);
            if round % 2 == 0 {
                live.end();
            } else {
                home.call(&["gateway", "stop"]).ok();
                assert_eq!(live.wait().code, Some(0));
            }
        }
        over.store(true, Ordering::Relaxed);
        askers.into_iter().map(|asker| asker.join().expect("no ask fails")).collect()
    });
    for (session, count) in asked {
        assert!(count > 0);
        let expected: Vec<_> = (0..count).map(|at| format!("q{at}")).collect();
        assert_eq!(Log::of(&home, &session).questions(), expected);
    }
    assert_eq!(
        account(&home, "default").answered("p"),
        (0..5).map(|at| format!("line {at}")).collect::<Vec<_>>()
    );
    settled(&home);
}

#[test]
fn an_ask_after_a_killed_gateway_leaves_its_channels_to_the_next_one() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let default = account(&home, "default");
    let call = home.call(&["up", "--json", "--port", "0"]).env("TIDEGATE_OFFLINE_DELAY_MS", "20000");
    let live = Live::with(call, home.root());
    default.write(&[super::files::line("p", "one"), super::files::line("p", "two")]);
    under_way(&home, "one");
    live.kill();
    assert_eq!(home.ask("between")["success"], true);
    let again = Live::start(&home);
    default.wait_for(2);
    assert_eq!(default.answered("p"), ["one", "two"]);
    again.end();
    settled(&home);
}

#[test]
fn an_ask_behind_a_dead_gateways_message_in_the_same_session_is_answered_after_it() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let call = home.call(&["up", "--json", "--port", "0"]).env("TIDEGATE_OFFLINE_DELAY_MS", "20000");
    let live = Live::with(call, home.root());
    assert_eq!(live.post("main", "from the page", "k1").expect("an answer").status / 100, 2);
    under_way(&home, "from the page");
    live.kill();
    let begin = std::time::Instant::now();
    assert_eq!(home.ask("after it")["success"], true);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    Live::start(&home).end();
    assert_eq!(Log::of(&home, "main").questions(), ["from the page", "after it"]);
    settled(&home);
}
