//! Whoever is linked to the gateway: calling its methods, and hearing everything once, however often it is killed.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_client::{Client, Following, Heard};
use tidegate_protocol::api::SubscribeSession;

use super::live::Live;
use crate::home::Home;

/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(90);

/// A gateway whose model takes its time for each piece.
fn slow(home: &Home) -> Live {
    let call = home.call(&["up", "--json", "--port", "0"]);
    Live::with(call.env("TIDEGATE_OFFLINE_DELAY_MS", "100"), home.root())
}

fn post(live: &Live, text: &str) {
    live.post("main", text, text).expect("it is taken");
}

#[test]
fn a_method_is_called_from_the_command_line() {
    let home = Home::new();
    home.call(&["gateway", "call", "me.get"]).fails("GATEWAY_STOPPED");
    let live = Live::start(&home);
    let call = |method: &str, params: &Value| {
        home.call(&["gateway", "call", method, "--params", &params.to_string()])
    };
    assert_eq!(home.call(&["gateway", "call", "me.get"]).json()["agent"], "main");
    let message = json!({ "session": "main", "text": "hi", "key": "k" });
    let sent = call("message.send", &message).json();
    let again = call("message.send", &message).json();
    assert_eq!((&again["runId"], &again["replayed"]), (&sent["runId"], &json!(true)));
    call("run.get", &json!({ "runId": "01890a5d-ac96-774b-bcce-b302099a8057" })).fails("NOT_FOUND");
    call("no.such", &json!({})).fails("NOT_FOUND");
    call("sessions.list", &json!({ "limit": 0 })).fails("BAD_REQUEST");
    home.call(&["gateway", "call", "me.get", "--params", "{"]).fails("INVALID_VALUE");
    live.end();
}

#[test]
fn events_of_a_conversation_go_on_when_the_gateway_was_killed_and_every_line_is_told_once() {
    let home = Home::new();
    let live = Live::start(&home);
    let mut events = home.call(&["events", "--session", "main", "--json"]).start();
    let mut lines: Vec<(i64, String)> = Vec::new();
    let mut read_to = |count: usize| {
        while lines.len() < count {
            let told: Value = serde_json::from_str(&events.line()).expect("one event a line");
            let kind = told["event"].as_str().unwrap_or_default();
            if matches!(kind, "session.snapshot" | "session.done") {
                for line in told["payload"]["messages"].as_array().into_iter().flatten() {
                    lines.push((line["seq"].as_i64().unwrap(), line["text"].as_str().unwrap().to_owned()));
                }
            }
        }
    };
    post(&live, "one");
    read_to(2);
    live.kill();
    let live = Live::start(&home);
    post(&live, "two");
    read_to(4);
    let questions: Vec<_> = lines.iter().map(|(seq, text)| (*seq, text.as_str())).step_by(2).collect();
    assert_eq!(questions, [(1, "one"), (3, "two")]);
    events.signal(Signal::INT);
    let done = events.wait();
    assert_eq!((done.code, done.signal), (Some(0), None), "{done:?}");
    live.end();
}

#[test]
fn what_happens_anywhere_is_told_to_people_and_a_home_without_a_gateway_says_so() {
    let home = Home::new();
    home.call(&["events"]).fails("GATEWAY_STOPPED");
    let live = Live::start(&home);
    let mut events = home.call(&["events"]).start();
    // Only then it listens.
    events.complaint("Ctrl-C");
    post(&live, "what is the tide doing?");
    let mut told = events.line();
    while !told.contains("completed") {
        told = events.line();
    }
    assert!(told.starts_with("main: run ") && told.ends_with("what is the tide doing?"), "{told}");
    events.signal(Signal::TERM);
    assert_eq!(events.wait().code, Some(0));
    live.end();
}

/// Reads until the lines of so many turns are there. Every line comes once.
async fn read_to(following: &mut Following, lines: &mut BTreeMap<i64, String>, count: usize) {
    while lines.len() < count {
        let heard = tokio::time::timeout(LONG, following.next()).await.expect("more comes");
        let told = match heard.expect("the link is there") {
            Heard::Snapshot(snapshot) => snapshot.messages,
            Heard::Done(done) => done.messages,
            Heard::Refused(error) => panic!("{error}"),
            Heard::Run(_) | Heard::Delta(_) | Heard::Tool(_) | Heard::Note(_) | Heard::Waits(_) => continue,
        };
        for line in told {
            assert_eq!(lines.insert(line.seq, line.text), None, "line {} was told before", line.seq);
        }
    }
}

/// Reads until words of an answer come.
async fn read_words(following: &mut Following, lines: &mut BTreeMap<i64, String>) {
    loop {
        let heard = tokio::time::timeout(LONG, following.next()).await.expect("words come");
        let told = match heard.expect("the link is there") {
            Heard::Delta(_) => return,
            Heard::Snapshot(snapshot) => snapshot.messages,
            Heard::Done(done) => done.messages,
            _ => continue,
        };
        for line in told {
            assert_eq!(lines.insert(line.seq, line.text), None, "line {} was told before", line.seq);
        }
    }
}

#[test]
fn no_line_is_lost_or_doubled_for_a_link_whose_gateway_is_killed_in_the_middle_of_answers() {
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut live = slow(&home);
    let client = Client::control(home.root().join("service/control.sock"));
    let (link, _news) = runtime.block_on(client.link(LONG)).unwrap();
    let what = SubscribeSession { session: "main".to_owned(), agent: None, cursor: None };
    let mut following = runtime.block_on(link.follow(what)).unwrap();
    let mut lines = BTreeMap::new();
    for turn in 1..=3 {
        post(&live, &format!("turn {turn}"));
        runtime.block_on(read_words(&mut following, &mut lines));
        live.kill();
        live = slow(&home);
        runtime.block_on(read_to(&mut following, &mut lines, turn * 2));
    }
    assert_eq!(lines.keys().copied().collect::<Vec<_>>(), (1..=6).collect::<Vec<_>>());
    for turn in 1..=3 {
        assert_eq!(lines[&(turn * 2 - 1)], format!("turn {turn}"));
    }
    drop((following, link));
    live.end();
}
