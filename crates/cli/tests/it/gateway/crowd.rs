//! Many clients at once: idle ones are only kept, a storm of those that come back is let in bit by bit, and one that
//! stops reading costs the others nothing.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::homes::{settled, with_channels};
use super::live::{Live, eventually};
use super::ws::Ws;
use crate::home::{Backend, Home, PROGRAM};

/// More than may be in the middle of a request at once.
const IDLE: usize = 600;
const STORM: usize = 500;
const THREADS: usize = 20;

fn gateway() -> (Home, Live) {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let live = Live::start(&home);
    (home, live)
}

/// Lets this test have as many files open as the system allows it.
fn raise_own_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it can be raised");
}

#[test]
fn idle_clients_are_kept_beyond_the_seats_and_beyond_the_files_it_began_with() {
    raise_own_limit();
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let script = "ulimit -S -n 256 && exec \"$@\"";
    let words = ["-c", script, "sh", PROGRAM, "up", "--json", "--port", "0"];
    let live = Live::with(home.call_as(Path::new("sh"), &words), home.root());
    let mut clients: Vec<Ws> = (0..IDLE).map(|_| Ws::enter(&live)).collect();
    assert_eq!(live.http("GET", "/healthz", &Value::Null).status, 200, "others are served beside them");
    for client in clients.iter_mut().step_by(IDLE / 10) {
        assert_eq!(client.payload("health", &json!({}))["ok"], true);
    }
    drop(clients);
    assert_eq!(Ws::enter(&live).payload("health", &json!({}))["ok"], true);
    live.end();
    settled(&home);
}

/// Comes back until it is let in, as a client does: a little later each time.
fn comes_back(address: &str, token: &str) -> Ws {
    let (begin, mut pause) = (Instant::now(), Duration::from_millis(10));
    loop {
        match Ws::try_enter(address, token) {
            Ok(client) => return client,
            Err(status) => assert!(matches!(status, 0 | 503), "turned away with {status}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(45), "it was never let in");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Processor time that a process has used, in hundredths of a second.
fn processor(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name in brackets").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

/// Everybody comes at once, `THREADS` at a time, some with a wrong token. Answers those who were let in.
fn storm(live: &Live) -> Vec<Ws> {
    let (let_in, entered) = mpsc::channel();
    for _ in 0..THREADS {
        let (address, token, let_in) = (live.address.clone(), live.token.clone(), let_in.clone());
        let thread = tidegate_runtime::spawn_thread("client", move || {
            for at in 0..STORM / THREADS {
                if at % 5 == 0 {
                    assert!(Ws::try_enter(&address, "a wrong one").is_err());
                }
                let _ = let_in.send(comes_back(&address, &token));
            }
        });
        drop(thread.expect("a thread starts"));
    }
    drop(let_in);
    entered.iter().collect()
}

#[test]
fn a_storm_of_clients_that_drop_and_return_is_let_in_and_nobody_is_locked_out() {
    raise_own_limit();
    let (home, live) = gateway();
    let first = storm(&live);
    assert_eq!(first.len(), STORM);
    drop(first);
    let mut good = Ws::enter(&live);
    let (over, done) = mpsc::channel::<()>();
    let patient = tidegate_runtime::spawn_thread("good client", move || {
        while done.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let begin = Instant::now();
            assert_eq!(good.payload("health", &json!({}))["ok"], true);
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let again = storm(&live);
    assert_eq!(again.len(), STORM, "everybody is back");
    drop(over);
    patient.expect("a thread started").join().expect("it was joined").expect("it was answered all the time");
    eventually("the processor rests", || {
        let before = processor(live.pid());
        std::thread::sleep(Duration::from_secs(1));
        (processor(live.pid()) - before < 30).then_some(())
    });
    drop(again);
    live.end();
    settled(&home);
}

#[test]
fn a_client_that_stops_reading_hears_the_ends_or_is_let_go_and_others_hear_everything() {
    const RUNS: usize = 30;
    let (home, live) = gateway();
    let slow = Ws::enter(&live);
    let mut fast = Ws::enter(&live);
    // Much more than may wait for one client, and than the system keeps for it.
    for at in 0..RUNS {
        let text = format!("{at} {}", "many words ".repeat(15_000));
        let message = json!({
            "sessionKey": format!("agent:main:n{at}"), "message": text, "idempotencyKey": format!("n{at}"),
        });
        assert_eq!(fast.payload("chat.send", &message)["status"], "started");
        let end = fast.event(|event| {
            event["event"] == "chat"
                && event["payload"]["state"] == "final"
                && event["payload"]["runId"] == format!("n{at}")
        });
        assert!(end.is_some(), "the end of {at} is told to whoever reads");
    }
    live.signal(rustix::process::Signal::TERM);
    let (told, code) = slow.heard_out();
    let ends =
        told.iter().filter(|event| event["event"] == "chat" && event["payload"]["state"] == "final").count();
    assert!(ends == RUNS || matches!(code, 1008 | 0), "{ends} ends were told, then {code}");
    assert_eq!(live.wait().code, Some(0), "and nobody waits for it");
    settled(&home);
}
