//! A full disk under a live gateway: reading goes on, writing is refused for now, and nothing acknowledged is lost.

use std::time::Duration;

use serde_json::{Value, json};

use super::files::Account;
use super::live::{Live, eventually};
use crate::disk::SmallDisk;

fn status(live: &Live) -> Value {
    live.http("GET", "/api/v1/status", &Value::Null).json()
}

#[test]
fn a_full_disk_stops_writing_only_and_everything_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::sized("40m") else { return };
    let root = disk.root();
    disk.config(
        "{ channels: { local: { enabled: true, pollMs: 20 } }, session: { reset: { mode: 'off' } } }\n",
    );
    let default = Account::of(&root, "default");
    let live = Live::with(disk.call(&["up", "--json", "--port", "0"]), &root);
    default.say("p", "before");
    default.wait_for(1);
    eventually("there is ballast", || root.join("service/ballast").exists().then_some(()));
    disk.fill(0);
    let mut owed = Vec::new();
    // What was accepted finds its room in the ballast; what comes new is refused, and the caller may come again.
    let refused = eventually("a refusal", || {
        let (key, text) = (format!("k{}", owed.len()), format!("{} {}", owed.len(), "x".repeat(200_000)));
        let answer = live.post("main", &text, &key).expect("an answer");
        if answer.status / 100 == 2 {
            owed.push(text);
            disk.fill_more();
            return None;
        }
        Some((answer, key, text))
    });
    let (answer, key, text) = refused;
    assert_eq!(answer.status, 503, "{:?}", answer.status);
    assert_eq!(answer.json()["error"]["code"], "STORAGE_FULL");
    assert!(answer.header("retry-after").is_some());
    default.say_if_room("p", "while it is full");
    for _ in 0..3 {
        assert_eq!(live.http("GET", "/healthz", &Value::Null).status, 200);
        assert_eq!(status(&live)["ready"], false, "{}", status(&live));
        assert_eq!(live.http("GET", "/readyz", &Value::Null).status, 503);
        assert_eq!(live.http("GET", "/api/v1/sessions", &Value::Null).status, 200);
        for words in [["sessions", "list"].as_slice(), &["runs", "list"], &["status"], &["outbox", "list"]] {
            disk.call(words).ok();
        }
    }
    disk.free();
    eventually("it is ready again", || (status(&live)["ready"] == true).then_some(()));
    let again = live.post("main", &text, &key).expect("an answer");
    assert_eq!(again.status / 100, 2, "{again:?}");
    owed.push(text);
    default.say("p", "after");
    eventually("the channel goes on", || (default.whole_rows().last()?["input"] == "after").then_some(()));
    // Long texts take their time; each has to come in its own.
    for count in 1..=owed.len() {
        eventually(&format!("{count} of {} accepted are in the log", owed.len()), || {
            let is_there = disk.questions().len() >= count;
            // Looking is much work here, and takes it from the one that is to write.
            std::thread::sleep(Duration::from_millis(if is_there { 0 } else { 500 }));
            is_there.then_some(())
        });
    }
    assert!(root.join("service/ballast").exists(), "and the ballast is back");
    live.end();
    assert_eq!(disk.questions(), owed, "what was acknowledged, once and in order");
    let runs = disk.call(&["runs", "list", "--json", "--limit", "1000"]).json();
    assert!(runs["runs"].as_array().is_some_and(|runs| runs.iter().all(|run| !run["finishedAt"].is_null())));
    assert_eq!(disk.call(&["audit", "verify", "--json"]).json()["whole"], json!(true));
}

#[test]
fn a_gateway_that_is_killed_on_a_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::sized("40m") else { return };
    let root = disk.root();
    let call = || disk.call(&["up", "--json", "--port", "0"]);
    let live = Live::with(call().env("TIDEGATE_OFFLINE_DELAY_MS", "50"), &root);
    let mut owed = Vec::new();
    for at in 0..4 {
        // Each takes longer than the one before, so that some are under way when the first has ended.
        let text = format!("question {at} {}", "more ".repeat(40 * at)).trim().to_owned();
        assert_eq!(
            live.post(&format!("s{at}"), &text, &format!("k{at}")).expect("an answer").status / 100,
            2
        );
        owed.push(text);
    }
    disk.fill(0);
    eventually("one has ended on the full disk", || {
        let runs = disk.call(&["runs", "list", "--json"]).json();
        runs["runs"].as_array()?.iter().any(|run| run["state"] == "completed").then_some(())
    });
    live.kill();
    disk.free();
    let again = Live::with(call(), &root);
    eventually("they are answered", || {
        let runs = disk.call(&["runs", "list", "--json"]).json();
        runs["runs"].as_array()?.iter().all(|run| run["state"] == "completed").then_some(())
    });
    again.end();
    for (at, text) in owed.iter().enumerate() {
        let shown = disk.call(&["sessions", "show", &format!("s{at}"), "--json"]).json();
        assert_eq!(shown["entries"][0]["body"]["content"][0]["text"], text.as_str(), "{shown}");
        assert_eq!(shown["messages"], 2, "{shown}");
    }
}

/// A disk that is full in the moment the gateway is there, before its log has any room, and one that has little room
/// afterwards: it is found ready again, and works.
#[test]
fn a_disk_that_is_full_right_after_a_start_is_found_ready_again() {
    for (size, used) in [("40m", 0), ("24m", 10 << 20)] {
        let Some(disk) = SmallDisk::sized(size) else { return };
        let root = disk.root();
        let live = Live::with(disk.call(&["up", "--json", "--port", "0"]), &root);
        std::fs::write(root.join("of-somebody-else"), vec![1; used]).expect("there is room");
        disk.fill(0);
        let mut owed = Vec::new();
        let refused = eventually("a refusal", || {
            let (key, text) = (format!("k{}", owed.len()), format!("{} {}", owed.len(), "x".repeat(100_000)));
            let answer = live.post("main", &text, &key).expect("an answer");
            if answer.status / 100 == 2 {
                owed.push(text);
                disk.fill_more();
                return None;
            }
            Some(answer)
        });
        assert_eq!(refused.json()["error"]["code"], "STORAGE_FULL", "{refused:?}");
        eventually("it says so", || (status(&live)["ready"] == false).then_some(()));
        disk.free();
        eventually("it is ready again", || (status(&live)["ready"] == true).then_some(()));
        assert_eq!(live.post("main", "after", "after").expect("an answer").status / 100, 2);
        owed.push("after".to_owned());
        eventually("everything is answered", || (disk.questions().len() >= owed.len()).then_some(()));
        live.end();
        assert_eq!(disk.questions(), owed, "{size}, {used}: once and in order");
    }
}
