//! Replies that did not arrive: told once at the next start, listed, and decided by a person.

use std::fs;

use serde_json::{Value, json};

use super::homes::{account, outbox, settled, sound, with_channels};
use super::live::{Live, eventually};
use crate::home::{Backend, Home};
use crate::process::Done;

const NOTICE: &str = "outbox list --state dead,unknown";

fn home() -> Home {
    with_channels(Backend::Sqlite).expect("SQLite is always there")
}

/// Waits for parts in a state.
fn parts(home: &Home, state: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} parts are {state}"), || {
        let found = outbox(home, state);
        (found.len() >= count).then_some(found)
    })
}

/// A reply to `p` that the network of files refused for good: a folder stands where its outbox should be.
fn refused(home: &Home) -> (Value, Done) {
    let default = account(home, "default");
    fs::create_dir(default.outbox()).expect("a folder can be made");
    let live = Live::start(home);
    default.say("p", "to nowhere");
    let dead = parts(home, "dead", 1).remove(0);
    let done = live.end();
    fs::remove_dir(default.outbox()).expect("the folder is empty");
    (dead, done)
}

/// The actions in the audit about parts of the outbox.
fn decisions(home: &Home) -> Vec<(String, String)> {
    let list = home.call(&["audit", "list", "--json", "--limit", "1000"]).json();
    let text = |row: &Value, key: &str| row[key].as_str().expect("a row has it").to_owned();
    let rows = list["audit"].as_array().expect("a list").iter().filter(|row| row["resourceType"] == "outbox");
    rows.map(|row| (text(row, "action"), text(row, "resourceId"))).collect()
}

#[test]
fn a_reply_nobody_could_deliver_is_told_once_at_the_next_start() {
    let home = home();
    let (dead, _) = refused(&home);
    assert!(dead["reason"].as_str().is_some_and(|reason| reason.contains("outbox.jsonl")), "{dead}");
    let told = Live::start(&home).end();
    assert!(told.stderr.contains(NOTICE) && told.stderr.contains("local:default:p"), "{told:?}");
    let again = Live::start(&home).end();
    assert!(!again.stderr.contains(NOTICE), "told once: {again:?}");
    assert_eq!(outbox(&home, "dead,unknown").len(), 1, "and still listed");
    let shown = home.call(&["outbox", "list", "--state", "dead,unknown"]).ok().stdout;
    assert!(shown.contains(dead["id"].as_str().expect("an id")), "{shown}");
    sound(&home);
}

#[test]
fn the_notice_speaks_the_owners_language() {
    let home = home();
    refused(&home);
    let call = home.call(&["up", "--json", "--port", "0"]).env("TIDEGATE_LANG", "zh-CN");
    let told = Live::with(call, home.root()).end();
    assert!(told.stderr.contains("未能送达") && told.stderr.contains(NOTICE), "{told:?}");
}

#[test]
fn a_dead_reply_is_sent_when_its_owner_says_so_with_and_without_a_gateway() {
    for running in [true, false] {
        let home = home();
        let (dead, _) = refused(&home);
        let id = dead["id"].as_str().expect("an id");
        let live = running.then(|| Live::start(&home));
        let told = home.call(&["outbox", "retry", id, "--json"]).json();
        assert_eq!(told, json!({ "id": id, "parts": 1 }));
        let live = live.unwrap_or_else(|| Live::start(&home));
        account(&home, "default").wait_for(1);
        assert_eq!(account(&home, "default").answered("p"), ["to nowhere"]);
        parts(&home, "sent", 1);
        let twice = home.call(&["outbox", "retry", id]).fails("INVALID_VALUE");
        assert!(twice.message.contains("sent"), "{twice:?}");
        live.end();
        let decided = decisions(&home);
        assert!(decided.iter().any(|(action, part)| action.contains("retr") && part == id), "{decided:?}");
        settled(&home);
    }
}

#[test]
fn a_dead_reply_is_given_up_when_its_owner_says_so_with_and_without_a_gateway() {
    for running in [true, false] {
        let home = home();
        let (dead, _) = refused(&home);
        let id = dead["id"].as_str().expect("an id");
        let live = running.then(|| Live::start(&home));
        let told = home.call(&["outbox", "drop", id]).ok().stdout;
        assert!(told.starts_with("1 part"), "{told}");
        if let Some(live) = live {
            live.end();
        }
        assert_eq!(outbox(&home, "dropped").len(), 1);
        assert_eq!(outbox(&home, "dead,unknown,pending"), Vec::<Value>::new());
        let next = Live::start(&home).end();
        assert!(!next.stderr.contains(NOTICE), "it is settled: {next:?}");
        assert_eq!(account(&home, "default").rows(), Vec::<Value>::new());
        home.call(&["outbox", "drop", id]).fails("INVALID_VALUE");
        let decided = decisions(&home);
        assert!(decided.iter().any(|(action, part)| action.contains("drop") && part == id), "{decided:?}");
        settled(&home);
    }
}

#[test]
fn a_reply_whose_file_cannot_be_read_back_is_in_doubt_until_its_owner_decides() {
    let home = home();
    let default = account(&home, "default");
    let call = home.call(&["up", "--json", "--port", "0"]);
    let live = Live::with(call.env("TIDEGATE_FAULT", "channels.local.sent=kill"), home.root());
    default.say("p", "in doubt");
    assert_eq!(live.wait().signal, Some(9));
    assert_eq!(default.answered("p"), ["in doubt"], "it went out, and nobody noted it");
    // A file that cannot be read: neither sent nor not sent can be said.
    let aside = default.outbox().with_extension("aside");
    fs::rename(default.outbox(), &aside).expect("it can be moved");
    fs::create_dir(default.outbox()).expect("a folder can be made");
    let second = Live::start(&home);
    let unknown = parts(&home, "unknown", 1).remove(0);
    second.end();
    fs::remove_dir(default.outbox()).expect("the folder is empty");
    fs::rename(&aside, default.outbox()).expect("it can be moved back");
    let told = Live::start(&home).end();
    assert!(told.stderr.contains(NOTICE) && told.stderr.contains("unknown"), "{told:?}");
    assert_eq!(default.rows().len(), 1, "never repeated blindly");
    home.call(&["outbox", "drop", unknown["id"].as_str().expect("an id")]).ok();
    assert_eq!(outbox(&home, "unknown,dead"), Vec::<Value>::new());
    settled(&home);
}

#[test]
fn a_dead_reply_does_not_stop_the_others() {
    let home = home();
    let (default, second) = (account(&home, "default"), account(&home, "second"));
    fs::create_dir(default.outbox()).expect("a folder can be made");
    let live = Live::start(&home);
    default.say("p", "to nowhere");
    parts(&home, "dead", 1);
    second.say("p", "beside it");
    second.wait_for(1);
    fs::remove_dir(default.outbox()).expect("the folder is empty");
    default.say("q", "mended");
    default.wait_for(1);
    assert_eq!(default.answered("q"), ["mended"]);
    live.end();
}
