//! Fifty turns under way, from everywhere at once: a channel, the page, sockets and HTTP streams. Then the gateway is
//! stopped, killed or restarted. What was acknowledged is answered once and in order, and every run ends.

use std::collections::BTreeMap;
use std::sync::mpsc;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::files::line;
use super::homes::{account, settled, with_config};
use super::http::{self, Answer};
use super::live::{Live, eventually};
use super::ws::Ws;
use crate::home::{Backend, Home};
use crate::log::Log;

const PEERS: usize = 14;
const EACH: usize = 12;
const TURNS: usize = PEERS + 3 * EACH;

/// What happens to the gateway in the middle of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// With a budget that is enough for everybody, or for nobody.
    Stop {
        in_time: bool,
    },
    Kill,
    /// A new configuration is taken over the socket, and nobody has time to end.
    Restart,
}

fn slow(home: &Home, delay_ms: u32) -> Live {
    let call = home.call(&["up", "--json", "--port", "0"]);
    Live::with(call.env("TIDEGATE_OFFLINE_DELAY_MS", delay_ms.to_string()), home.root())
}

/// Reads a whole stream of the OpenAI dialect, to wherever it ends.
fn stream(live: &Live, text: &str) -> mpsc::Receiver<Option<Answer>> {
    let body =
        json!({ "model": "offline", "stream": true, "messages": [{ "role": "user", "content": text }] });
    let (address, bearer) = (live.address.clone(), format!("Bearer {}", live.token));
    let (told, read) = mpsc::channel();
    let reading = tidegate_runtime::spawn_thread("stream", move || {
        let headers = [("Authorization", bearer.as_str())];
        let _ =
            told.send(http::request(&address, "POST", "/v1/chat/completions", &headers, &body.to_string()));
    });
    drop(reading.expect("a thread starts"));
    read
}

/// Whether a stream told an answer to its end.
fn is_whole(answer: &Answer) -> bool {
    answer.body.contains("[DONE]") && !answer.body.contains("error")
}

fn running(live: &Live) -> u64 {
    let status = live.http("GET", "/api/v1/status", &Value::Null).json();
    let runs = status["counts"]["runs"].as_array().cloned().unwrap_or_default();
    runs.iter().find(|row| row["state"] == "running").and_then(|row| row["count"].as_u64()).unwrap_or(0)
}

/// Everybody who waits for something.
struct Load {
    streams: Vec<mpsc::Receiver<Option<Answer>>>,
    sockets: Ws,
}

impl Load {
    /// Fifty turns begin; some conversations have a second message that waits behind the first.
    fn begin(home: &Home, live: &Live) -> Self {
        let mut lines: Vec<_> = (0..PEERS).map(|at| line(&format!("p{at}"), &format!("peer {at}"))).collect();
        lines.extend((0..PEERS / 2).map(|at| line(&format!("p{at}"), &format!("peer {at} again"))));
        account(home, "default").write(&lines);
        for at in 0..EACH {
            for (key, text) in [("a", format!("page {at}")), ("b", format!("page {at} again"))] {
                let answer = live.post(&format!("s{at}"), &text, &format!("{key}{at}")).expect("an answer");
                assert_eq!(answer.status / 100, 2, "{answer:?}");
            }
        }
        let mut sockets = Ws::enter(live);
        for at in 0..EACH {
            let message = json!({
                "sessionKey": format!("agent:main:w{at}"), "message": format!("socket {at}"),
                "idempotencyKey": format!("w{at}"),
            });
            assert_eq!(sockets.payload("chat.send", &message)["status"], "started");
        }
        let streams = (0..EACH).map(|at| stream(live, &format!("stream {at}"))).collect();
        eventually("fifty turns under way", || (running(live) >= TURNS as u64).then_some(()));
        Self { streams, sockets }
    }
}

/// Each text was asked once, in its conversation's order, and answered.
fn answered_once(home: &Home) {
    let default = account(home, "default");
    default.wait_for(PEERS + PEERS / 2);
    eventually("every run has ended", || {
        home.runs().iter().all(|run| !run["finishedAt"].is_null()).then_some(())
    });
    for at in 0..PEERS {
        let mut expected = vec![format!("peer {at}")];
        expected.extend((at < PEERS / 2).then(|| format!("peer {at} again")));
        assert_eq!(default.answered(&format!("p{at}")), expected);
    }
    assert_eq!(default.rows().len(), PEERS + PEERS / 2, "nothing twice");
}

fn look(home: &Home) {
    let logs: BTreeMap<String, Log> = settled(home);
    let of = |first: &str| -> Vec<Vec<&str>> {
        logs.values().map(Log::questions).filter(|log| log.first() == Some(&first)).collect()
    };
    for at in 0..EACH {
        let (page, again) = (format!("page {at}"), format!("page {at} again"));
        assert_eq!(of(&page), [[page.as_str(), &again]], "in order and once");
        let socket = format!("socket {at}");
        assert_eq!(of(&socket), [[socket.as_str()]]);
    }
}

fn under_load(backend: Backend, fate: Fate) {
    let in_time = fate == Fate::Stop { in_time: true };
    let budget = if in_time { 60 } else { 1 };
    let Some(home) = with_config(backend, &format!("gateway: {{ drainSeconds: {budget} }}")) else { return };
    let live = slow(&home, if in_time { 300 } else { 4_000 });
    let load = Load::begin(&home, &live);
    let pid = live.pid();
    match fate {
        Fate::Kill => live.kill(),
        Fate::Stop { .. } => {
            live.signal(Signal::TERM);
            let (told, code) = load.sockets.heard_out();
            assert_eq!(code, 1012, "a socket is closed with a word: {told:?}");
            assert!(told.iter().any(|event| event["event"] == "shutdown"), "{told:?}");
            let ours = |run: &Value| run.as_str().is_some_and(|run| run.starts_with('w'));
            let ends = told.iter().filter(|event| {
                event["event"] == "chat"
                    && event["payload"]["state"] == "final"
                    && ours(&event["payload"]["runId"])
            });
            let finals = ends.count();
            assert_eq!(finals, if in_time { EACH } else { 0 }, "ends are told, and only ends");
            let done = live.wait();
            assert_eq!((done.code, done.signal), (Some(0), None), "{done:?}");
        }
        Fate::Restart => {
            home.write_config(&home.read_config().replace("drainSeconds: 1 ", "drainSeconds: 2 "));
            let told = home.call(&["gateway", "restart", "--json"]).json();
            assert_eq!((&told["restarted"], &told["pid"]), (&json!(true), &json!(pid)), "{told}");
            let (told, code) = load.sockets.heard_out();
            assert_eq!(code, 1012, "{told:?}");
            let shutdown = told.iter().find(|event| event["event"] == "shutdown").expect("it is told");
            assert!(shutdown["payload"]["restartExpectedMs"].as_u64() > Some(0), "{shutdown}");
            // The paced model would take its time again.
            live.end();
        }
    }
    let streams: Vec<_> = load.streams.iter().map(|stream| stream.recv().expect("it was read")).collect();
    for answer in &streams {
        let Some(answer) = answer else {
            assert_eq!(fate, Fate::Kill, "only death leaves a request without an answer");
            continue;
        };
        if fate != Fate::Kill {
            let interrupted = answer.body.contains("INTERRUPTED");
            assert_eq!((is_whole(answer), interrupted), (in_time, !in_time), "{answer:?}");
        }
    }
    let again = Live::start(&home);
    answered_once(&home);
    again.end();
    look(&home);
    let completed = |text: &str| {
        home.runs().iter().filter(|run| run["input"] == text && run["state"] == "completed").count()
    };
    for (at, answer) in streams.iter().enumerate() {
        if answer.as_ref().is_some_and(is_whole) {
            assert_eq!(completed(&format!("stream {at}")), 1, "what was told is so");
        }
    }
}

#[test]
fn fifty_turns_from_everywhere_end_before_a_stop_that_leaves_them_time() {
    under_load(Backend::Sqlite, Fate::Stop { in_time: true });
}

#[test]
fn fifty_turns_from_everywhere_survive_a_stop_without_time_on_sqlite() {
    under_load(Backend::Sqlite, Fate::Stop { in_time: false });
}

#[test]
fn fifty_turns_from_everywhere_survive_a_stop_without_time_on_postgres() {
    under_load(Backend::Postgres, Fate::Stop { in_time: false });
}

#[test]
fn fifty_turns_from_everywhere_survive_a_kill_on_sqlite() {
    under_load(Backend::Sqlite, Fate::Kill);
}

#[test]
fn fifty_turns_from_everywhere_survive_a_kill_on_postgres() {
    under_load(Backend::Postgres, Fate::Kill);
}

#[test]
fn fifty_turns_from_everywhere_survive_a_restart_in_place_on_sqlite() {
    under_load(Backend::Sqlite, Fate::Restart);
}

#[test]
fn fifty_turns_from_everywhere_survive_a_restart_in_place_on_postgres() {
    under_load(Backend::Postgres, Fate::Restart);
}
