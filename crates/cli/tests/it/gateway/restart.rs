//! Restart in place: the same process takes a new configuration, on the same port, and a bad one changes nothing.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::homes::{account, settled, with_channels, with_config};
use super::http;
use super::live::{Live, eventually};
use super::ws::Ws;
use crate::home::{Backend, Home};

fn gateway() -> (Home, Live) {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let live = Live::start(&home);
    (home, live)
}

/// One more account in the file, as somebody with an editor does it.
fn with_third(home: &Home) {
    home.write_config(&home.read_config().replace("second: {}", "second: {}, third: {}"));
}

/// The account of the new configuration is read, by the process that ran before.
fn third_is_answered(home: &Home, live: &Live) {
    let third = account(home, "third");
    third.say("p", "to the new account");
    third.wait_for(1);
    assert_eq!(third.answered("p"), ["to the new account"]);
    let status = live.http("GET", "/api/v1/status", &Value::Null).json();
    assert_eq!(status["pid"], live.pid());
    assert_eq!(live.http("GET", "/api/v1/config", &Value::Null).json()["stale"], false);
}

#[test]
fn a_hang_up_takes_the_file_and_a_conversation_goes_on() {
    let (home, live) = gateway();
    let default = account(&home, "default");
    default.say("p", "before");
    default.wait_for(1);
    with_third(&home);
    assert_eq!(live.http("GET", "/api/v1/config", &Value::Null).json()["stale"], true);
    live.signal(Signal::HUP);
    third_is_answered(&home, &live);
    default.say("p", "after");
    default.wait_for(2);
    assert_eq!(default.answered("p"), ["before", "after"]);
    live.end();
    settled(&home);
}

#[test]
fn whoever_changes_the_configuration_over_the_socket_is_told_that_it_is_taken() {
    let (home, live) = gateway();
    for (method, account) in [("config.patch", "third"), ("config.apply", "fourth")] {
        let mut client = Ws::enter(&live);
        let shown = client.payload("config.get", &json!({}));
        let mut raw = json!({ "channels": { "local": { "accounts": { account: {} } } } });
        if method == "config.apply" {
            raw = shown["parsed"].clone();
            raw["channels"]["local"]["accounts"][account] = json!({});
        }
        let params = json!({ "raw": raw.to_string(), "baseHash": shown["hash"] });
        let answer = client.payload(method, &params);
        assert_eq!(answer["restart"]["ok"], true, "{answer}");
        assert_eq!(answer["restart"]["pid"], live.pid(), "{answer}");
        let (told, code) = client.heard_out();
        let shutdown = told.iter().find(|event| event["event"] == "shutdown").expect("it is told");
        assert!(shutdown["payload"]["restartExpectedMs"].as_u64() > Some(0), "{shutdown}");
        assert_eq!(code, 1012);
        eventually("the new configuration holds", || {
            let channels = live.try_http("GET", "/api/v1/channels", &Value::Null)?.json();
            channels.as_array()?.iter().any(|row| row["account"] == account).then_some(())
        });
    }
    third_is_answered(&home, &live);
    live.end();
    settled(&home);
}

#[test]
fn a_change_over_http_is_taken_too() {
    let (home, live) = gateway();
    let shown = live.http("GET", "/api/v1/config", &Value::Null).json();
    let body = json!({ "baseHash": shown["hash"], "patch": { "channels": { "local": { "accounts": { "third": {} } } } } });
    let answer = live.http("PATCH", "/api/v1/config", &body);
    let changed = answer.json();
    assert_eq!((answer.status, &changed["restarting"]), (200, &json!(true)), "{changed}");
    assert_eq!(changed["needsRestart"], false, "{changed}");
    eventually("it holds", || {
        (live.try_http("GET", "/api/v1/config", &Value::Null)?.json()["stale"] == false).then_some(())
    });
    third_is_answered(&home, &live);
    live.end();
}

#[test]
fn a_bad_configuration_changes_nothing_and_says_why() {
    let (home, live) = gateway();
    let good = home.read_config();
    let mut client = Ws::enter(&live);
    for (bad, code) in [
        ("{ gateway: ", "CONFIG_SYNTAX"),
        ("{ gateway: { port: \"high\" } }", "CONFIG_INVALID"),
        ("{ nonsense: 1 }", "CONFIG_INVALID"),
    ] {
        home.write_config(bad);
        let failed = home.call(&["gateway", "restart"]).fails(code);
        assert!(failed.message.contains("config.json5"), "{failed:?}");
        live.signal(Signal::HUP);
        eventually("it is told", || {
            let log = fs::read_to_string(home.root().join("logs/gateway.log")).ok()?;
            log.contains("the configuration is not taken").then_some(())
        });
        assert_eq!(client.payload("health", &json!({}))["ok"], true, "nobody was thrown out");
    }
    home.write_config(&good);
    let shown = client.payload("config.get", &json!({}));
    let bad = json!({ "raw": "{ gateway: { port: 'high' } }", "baseHash": shown["hash"] });
    let refused = client.call("config.apply", &bad);
    assert_eq!(refused["ok"], false, "{refused}");
    assert_eq!(home.read_config(), good, "and nothing was written");
    let default = account(&home, "default");
    default.say("p", "still here");
    default.wait_for(1);
    live.end();
    settled(&home);
}

#[test]
fn nobody_is_refused_while_it_restarts() {
    let (home, live) = gateway();
    let (over, address) = (Arc::new(AtomicBool::new(false)), live.address.clone());
    let (stop, bearer) = (Arc::clone(&over), format!("Bearer {}", live.token));
    let poll = tidegate_runtime::spawn_thread("poll", move || {
        let mut asked = 0;
        while !stop.load(Ordering::Acquire) {
            let answer = http::request(&address, "GET", "/healthz", &[("Authorization", &bearer)], "");
            assert_eq!(answer.map(|answer| answer.status), Some(200), "after {asked}");
            asked += 1;
        }
    })
    .expect("a thread starts");
    for _ in 0..3 {
        let told = home.call(&["gateway", "restart", "--json"]).json();
        assert_eq!(told["pid"], live.pid(), "{told}");
    }
    over.store(true, Ordering::Release);
    poll.join().expect("it was joined").expect("every request was answered");
    live.end();
}

#[test]
fn restarts_leave_nothing_behind() {
    let (home, live) = gateway();
    let restart = || {
        let mut client = Ws::enter(&live);
        assert_eq!(client.payload("health", &json!({}))["ok"], true);
        home.call(&["gateway", "restart"]).ok();
        assert_eq!(client.heard_out().1, 1012);
    };
    let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", live.pid())).unwrap().count();
    restart();
    // What looks at the sandboxes of this machine in the beginning opens files too.
    let quiet = |what: &str| {
        let mut before = count(what);
        eventually("it rests", || {
            std::thread::sleep(Duration::from_millis(500));
            let now = count(what);
            (std::mem::replace(&mut before, now) == now).then_some(now)
        })
    };
    let before = quiet("fd");
    for _ in 0..6 {
        restart();
    }
    let after = quiet("fd");
    assert!(after <= before + 3, "{before} open files before six restarts, {after} after them");
    let kept = fs::read_dir(home.root().join("service")).unwrap().count();
    assert!(kept <= 4, "{kept} files");
    live.end();
    settled(&home);
}

/// Two ports that are free, one after the other.
fn free_ports() -> (u16, u16) {
    let (one, two) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    (one.local_addr().unwrap().port(), two.local_addr().unwrap().port())
}

/// A gateway on the port of its configuration.
fn on_port(port: u16, more: &str) -> (Home, Live) {
    let home = Home::new();
    home.write_config(&format!("{{ gateway: {{ port: {port}{more} }} }}\n"));
    let live = Live::with(home.call(&["up", "--json"]), home.root());
    (home, live)
}

#[test]
fn a_new_port_is_opened_and_a_taken_one_changes_nothing() {
    let (first, second) = free_ports();
    let (home, live) = on_port(first, "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = taken.local_addr().unwrap().port();
    home.write_config(&format!("{{ gateway: {{ port: {other} }} }}\n"));
    let failed = home.call(&["gateway", "restart"]).fails("PORT_IN_USE");
    assert!(failed.message.contains(&std::process::id().to_string()), "who has it: {failed:?}");
    assert_eq!(live.http("GET", "/healthz", &Value::Null).status, 200, "the old port is served");
    home.write_config(&format!("{{ gateway: {{ port: {second} }} }}\n"));
    let told = home.call(&["gateway", "restart", "--json"]).json();
    assert_eq!(told["url"], format!("http://127.0.0.1:{second}"), "{told}");
    let answer = |port: u16| http::request(&format!("127.0.0.1:{port}"), "GET", "/healthz", &[], "");
    assert_eq!(answer(second).map(|answer| answer.status), Some(200));
    assert!(answer(first).is_none(), "the old port is closed");
    live.end();
}

#[test]
fn a_restart_that_fails_goes_on_with_the_configuration_before() {
    // Somebody else has the port on another address: that shows only when we want all of them.
    let foreign = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    let (home, live) = on_port(port, "");
    let conversation = home.ask("before");
    home.write_config(&format!("{{ gateway: {{ port: {port}, bind: 'lan' }} }}\n"));
    let failed = home.call(&["gateway", "restart"]).fails("CONFIG_INVALID");
    assert!(failed.message.contains("gateway.log"), "where to look: {failed:?}");
    let log = fs::read_to_string(home.root().join("logs/gateway.log")).unwrap();
    assert!(log.contains("went on with the configuration before"), "{log}");
    let status = live.http("GET", "/api/v1/status", &Value::Null).json();
    assert_eq!((&status["pid"], &status["ready"]), (&json!(live.pid()), &json!(true)), "{status}");
    assert_eq!(home.ask("after")["sessionId"], conversation["sessionId"]);
    let done = live.end();
    assert!(done.stderr.contains("[PORT_IN_USE]"), "it is told loudly: {done:?}");
    settled(&home);
}

#[test]
fn a_gateway_whose_port_was_taken_while_a_restart_failed_waits_for_it() {
    let foreign = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    let (home, live) = on_port(port, "");
    let conversation = home.ask("before");
    home.write_config(&format!("{{ gateway: {{ port: {port}, bind: 'lan' }} }}\n"));
    live.signal(Signal::HUP);
    // In the moment between the gateway that ends and the one that cannot start.
    let begin = Instant::now();
    let thief = loop {
        if let Ok(thief) = TcpListener::bind(("127.0.0.1", port)) {
            break thief;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the port was never let go");
    };
    let waits = |log: &str| log.contains("waits for the port that it had").then_some(());
    eventually("it waits", || waits(&fs::read_to_string(home.root().join("logs/gateway.log")).ok()?));
    drop(thief);
    eventually("it is back", || {
        let status = live.try_http("GET", "/api/v1/status", &Value::Null)?.json();
        (status["pid"] == live.pid() && status["ready"] == true).then_some(())
    });
    assert_eq!(home.ask("after")["sessionId"], conversation["sessionId"]);
    live.end();
    settled(&home);
}

#[test]
fn whoever_gave_a_port_is_told_that_one_in_the_file_is_not_taken() {
    let (given, written) = free_ports();
    let home = Home::new();
    home.write_config(&format!("{{ gateway: {{ port: {given} }} }}\n"));
    let live = Live::with(home.call(&["up", "--json", "--port", &given.to_string()]), home.root());
    let quiet = home.call(&["gateway", "restart"]).ok();
    assert!(!quiet.stderr.contains("--port"), "{quiet:?}");
    home.write_config(&format!("{{ gateway: {{ port: {written} }} }}\n"));
    let told = home.call(&["gateway", "restart"]).ok();
    for part in
        [&format!("gateway.port is {written}"), &format!("--port, which is stronger: it stays on {given}")]
    {
        assert!(told.stderr.contains(part.as_str()), "{part}: {told:?}");
    }
    let json = home.call(&["gateway", "restart", "--json"]).json();
    assert_eq!(json["url"], format!("http://127.0.0.1:{given}"), "{json}");
    live.end();
}

#[test]
fn a_gateway_that_is_stopped_while_it_restarts_stops_in_good_order() {
    let home = with_config(Backend::Sqlite, "gateway: { drainSeconds: 20 }").expect("SQLite is always there");
    let call = home.call(&["up", "--json", "--port", "0"]).env("TIDEGATE_OFFLINE_DELAY_MS", "1000");
    let live = Live::with(call, home.root());
    let default = account(&home, "default");
    default.say("p", "under way");
    eventually("it is under way", || {
        let status = live.http("GET", "/api/v1/status", &Value::Null).json();
        let runs = status["counts"]["runs"].as_array()?.clone();
        runs.iter().any(|row| row["state"] == "running").then_some(())
    });
    live.signal(Signal::HUP);
    eventually("it drains", || (live.try_http("GET", "/readyz", &Value::Null)?.status == 503).then_some(()));
    live.signal(Signal::TERM);
    let done = live.wait();
    assert_eq!((done.code, done.signal), (Some(0), None), "{done:?}");
    assert_eq!(default.answered("p"), ["under way"], "it had its time");
    settled(&home);
}

#[test]
fn a_restart_without_a_gateway_says_how_to_start_one() {
    let home = Home::new();
    home.ask("makes the home");
    let failed = home.call(&["gateway", "restart"]).fails("GATEWAY_STOPPED");
    assert!(failed.stderr.contains("gateway run"), "{failed:?}");
}
