//! What every new command says when there is nothing, when a name is wrong, and when nobody is there: an exit code, an
//! error code, words that help, in both languages, and JSON where JSON was asked for.

use serde_json::{Value, json};

use super::homes::{account, outbox, with_channels};
use super::live::{Live, eventually};
use crate::home::{Backend, Home};

/// An id of the right shape that names nothing.
const NOBODY: &str = "01a1e223-83cc-7390-a9a1-3f1cb4586c8e";

/// Whether a text has Chinese in it.
fn is_chinese(text: &str) -> bool {
    text.chars().any(|character| ('\u{4e00}'..='\u{9fff}').contains(&character))
}

/// The command fails with this code, in English, in Chinese and as JSON.
fn fails(home: &Home, words: &[&str], code: &str, contains: &str) {
    let english = home.call(words).fails(code);
    assert!(english.stderr.contains(contains), "{words:?}: {english:?}");
    assert!(!is_chinese(&english.stderr), "{words:?}: {english:?}");
    let chinese = home.call(words).env("TIDEGATE_LANG", "zh-CN").fails(code);
    assert!(is_chinese(&chinese.message), "{words:?}: {chinese:?}");
    let as_json: Vec<_> = words.iter().copied().chain(["--json"]).collect();
    let told = home.call(&as_json).fails(code);
    assert!(!told.stdout.is_empty(), "{words:?}: {told:?}");
}

/// The command succeeds and says in both languages that there is nothing; its JSON is an object with these values.
fn says(home: &Home, words: &[&str], contains: &str, expected: &Value) {
    let english = home.call(words).ok();
    assert!(english.stdout.contains(contains), "{words:?}: {english:?}");
    assert!(!is_chinese(&english.stdout), "{words:?}: {english:?}");
    let chinese = home.call(words).env("TIDEGATE_LANG", "zh-CN").ok();
    assert!(is_chinese(&chinese.stdout), "{words:?}: {chinese:?}");
    is(home, words, expected);
}

/// What the command prints as JSON has these values.
fn is(home: &Home, words: &[&str], expected: &Value) {
    let as_json: Vec<_> = words.iter().copied().chain(["--json"]).collect();
    let told = home.call(&as_json).json();
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&told[key], value, "{words:?}: {told}");
    }
}

fn nothing_there(home: &Home) {
    says(home, &["outbox", "list"], "Nothing goes out", &json!({ "outbox": [] }));
    says(home, &["audit", "list"], "Nothing was recorded", &json!({ "audit": [] }));
    says(home, &["audit", "verify"], "whole: 0 rows", &json!({ "whole": true, "seals": 0, "unsealed": 0 }));
}

fn wrong_names(home: &Home) {
    fails(home, &["outbox", "retry", NOBODY], "NOT_FOUND", "outbox list");
    fails(home, &["outbox", "drop", NOBODY], "NOT_FOUND", "outbox list");
    fails(home, &["outbox", "retry", "7"], "INVALID_VALUE", "Usage:");
    fails(home, &["outbox", "drop", ""], "INVALID_VALUE", "Usage:");
    fails(home, &["outbox", "retry"], "MISSING_VALUE", "Usage:");
    fails(home, &["outbox", "list", "--state", "gone"], "INVALID_VALUE", "pending, sending, sent");
    fails(home, &["outbox", "list", "--channel", "?!"], "INVALID_VALUE", "--channel");
    fails(home, &["outbox", "list", "--limit", "0"], "INVALID_VALUE", "--limit");
    fails(home, &["audit", "list", "--limit", "x"], "INVALID_VALUE", "--limit");
    fails(home, &["runs", "abort", NOBODY], "NOT_FOUND", "runs list");
    fails(home, &["runs", "abort", "x"], "NOT_FOUND", "runs list");
    fails(home, &["runs", "replay", NOBODY], "NOT_FOUND", "runs list");
    fails(home, &["gateway", "run", "--port", "70000"], "INVALID_VALUE", "--port");
    fails(home, &["gateway", "bogus"], "UNKNOWN_COMMAND", "gateway");
}

#[test]
fn a_home_without_a_gateway_answers_every_command() {
    let home = Home::new();
    nothing_there(&home);
    says(&home, &["channels", "list"], "channels.local.enabled", &json!({ "channels": [] }));
    says(&home, &["channels", "status"], "gateway run", &json!({ "running": false, "channels": [] }));
    says(&home, &["gateway", "stop"], "already stopped", &json!({ "running": false, "stopped": false }));
    is(&home, &["gateway", "status"], &json!({ "running": false, "status": "stopped", "pid": null }));
    fails(&home, &["gateway", "link"], "GATEWAY_STOPPED", "gateway run");
    wrong_names(&home);
}

#[test]
fn a_home_with_a_gateway_answers_every_command() {
    let home = Home::new();
    let live = Live::start(&home);
    nothing_there(&home);
    says(&home, &["channels", "list"], "channels.local.enabled", &json!({ "channels": [] }));
    says(
        &home,
        &["channels", "status"],
        "channels.local.enabled",
        &json!({ "running": true, "channels": [] }),
    );
    let address = format!("http://{}", live.address);
    is(
        &home,
        &["gateway", "status"],
        &json!({ "running": true, "ready": true, "address": address, "pid": live.pid() }),
    );
    is(&home, &["status"], &json!({}));
    wrong_names(&home);
    live.end();
}

#[test]
fn an_open_chat_is_not_taken_for_a_gateway() {
    let home = Home::new();
    home.write_config("{}\n");
    let chat = home.call(&["chat"]).start();
    let lock = home.root().join("service/home.lock");
    eventually("the chat holds the home", || {
        std::fs::read_to_string(&lock).ok().filter(|held| held.contains("chat"))
    });
    for words in [["gateway", "run", "--port", "0"].as_slice(), &["up", "--port", "0"]] {
        fails(&home, words, "HOME_BUSY", "Ctrl+D");
        let failed = home.call(words).fails("HOME_BUSY");
        assert!(failed.message.contains(&format!("process {} (chat)", chat.pid())), "{failed:?}");
        assert!(!failed.stderr.contains("gateway stop"), "{failed:?}");
    }
    fails(&home, &["gateway", "link"], "GATEWAY_STOPPED", "gateway run");
    is(&home, &["gateway", "status"], &json!({ "running": false, "status": "stopped", "pid": null }));
    let stopped = home.call(&["gateway", "stop"]).ok();
    assert!(stopped.stderr.contains("(chat) holds this home"), "{stopped:?}");
    assert_eq!(chat.wait().code, Some(0));
}

#[test]
fn channels_are_listed_with_their_files_and_shown_at_work() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let listed = home.call(&["channels", "list", "--json"]).json();
    let accounts = |told: &Value| -> Vec<String> {
        let rows = told["channels"].as_array().expect("a list").iter();
        rows.map(|row| row["account"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(accounts(&listed), ["default", "second"], "{listed}");
    assert!(
        listed["channels"][0]["details"]["inbox"].as_str().is_some_and(|path| path.ends_with("inbox.jsonl"))
    );
    let live = Live::start(&home);
    account(&home, "second").say("p", "hi");
    account(&home, "second").wait_for(1);
    let status = home.call(&["channels", "status", "--json"]).json();
    assert_eq!(accounts(&status), ["default", "second"], "{status}");
    assert!(
        status["channels"].as_array().expect("a list").iter().all(|row| row["state"] == "running"),
        "{status}"
    );
    assert!(status["channels"][1]["lastInboundAt"].is_number(), "{status}");
    let shown = home.call(&["channels", "status", "--channel", "local"]).ok().stdout;
    assert!(shown.contains("second") && shown.contains("running"), "{shown}");
    let titles = home.call(&["channels", "status"]).env("TIDEGATE_LANG", "zh-CN").ok().stdout;
    assert!(is_chinese(&titles), "{titles}");
    live.end();
}

#[test]
fn what_has_ended_is_neither_aborted_nor_decided_again() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    for running in [true, false] {
        let live = Live::start(&home);
        account(&home, "default").say("p", "hi");
        account(&home, "default").wait_for(if running { 1 } else { 2 });
        let sent = eventually("it is noted as sent", || outbox(&home, "sent").pop());
        // The other half of it is decided in the command's own process.
        let live = running.then_some(live);
        let part = sent["id"].as_str().expect("an id");
        for verb in ["retry", "drop"] {
            fails(&home, &["outbox", verb, part], "INVALID_VALUE", "sent");
        }
        let run = sent["runId"].as_str().expect("an id");
        let shown = home.call(&["runs", "abort", run]).ok();
        assert!(shown.stdout.contains("completed"), "it had ended: {shown:?}");
        assert_eq!(home.runs().last().expect("a run")["state"], "completed");
        let replayed = home.call(&["runs", "replay", run, "--json"]).json();
        assert!(replayed.is_object(), "{replayed}");
        if let Some(live) = live {
            live.end();
        }
    }
}

#[test]
fn a_run_is_aborted_with_its_gateway_alive() {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let call = home.call(&["up", "--json", "--port", "0"]).env("TIDEGATE_OFFLINE_DELAY_MS", "20000");
    let live = Live::with(call, home.root());
    live.post("main", "for ever", "k").expect("an answer");
    let run = eventually("it is under way", || home.runs().into_iter().find(|run| run["state"] == "running"));
    home.call(&["runs", "abort", run["id"].as_str().expect("an id")]).ok();
    let ended = home.runs().pop().expect("a run");
    assert_eq!((&ended["state"], ended["finishedAt"].is_null()), (&json!("aborted"), false), "{ended}");
    live.end();
}
