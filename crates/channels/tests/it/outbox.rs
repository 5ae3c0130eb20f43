//! Sending to an outbox, and reading back what a dead process may have sent.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tidegate_protocol::{Connector as _, Doubt, Found, OutboundTarget, Part, Quote, Reply, SendOutcome};
use tidegate_runtime::spawn;

use crate::scene::Folder;

fn reply(peer: &str, text: &str) -> Reply {
    Reply {
        channel: "local".parse().unwrap(),
        account_id: "work".to_owned(),
        target: OutboundTarget { peer_id: peer.to_owned(), thread_id: None },
        text: text.to_owned(),
        attachments: Vec::new(),
        quote: Some(Quote { message_id: "r1".to_owned(), text: "hi".to_owned() }),
        error: None,
    }
}

fn part(folder: &Folder, text: &str) -> Part {
    let [part] = folder.local().render(&reply("main", text)).try_into().unwrap();
    part
}

fn sent(key: &str) -> SendOutcome {
    SendOutcome::Sent { id: key.to_owned() }
}

fn found(key: &str) -> Found {
    Found::Sent { id: key.to_owned() }
}

/// The whole lines; what is no JSON is left out.
fn rows(folder: &Folder) -> Vec<Value> {
    let text = fs::read_to_string(folder.outbox()).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _torn)| whole);
    whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn tear(folder: &Folder, bytes: &[u8]) {
    fs::create_dir_all(folder.outbox().parent().unwrap()).unwrap();
    let file = fs::OpenOptions::new().create(true).append(true).open(folder.outbox());
    file.unwrap().write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_part_becomes_a_line_that_only_its_owner_reads() {
    let folder = Folder::new();
    let part = part(&folder, "hello\nyou");
    assert_eq!(part.lane, "local:work:main");
    assert_eq!(folder.local().send(&part, "k1").await, sent("k1"));
    let expected = json!({
        "channel": "local", "recordedAt": "2026-02-23T17:07:31.120Z", "requestId": "r1", "requestSource": "local",
        "sessionKey": "main", "input": "hi", "output": {"text": "hello\nyou"}, "key": "k1",
    });
    assert_eq!(rows(&folder), [expected]);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.outbox()), 0o600);
    assert_eq!(mode(folder.outbox().parent().unwrap()), 0o700);
}

#[tokio::test]
async fn what_was_sent_is_found_by_its_key_and_nothing_else_is() {
    let folder = Folder::new();
    let (local, part) = (folder.local(), part(&folder, "the key is \"k2\""));
    assert_eq!(local.doubt(), Doubt::ReadBack);
    assert_eq!(local.find(&part, "k1").await, Found::Absent, "no file yet");
    assert_eq!(local.send(&part, "k1").await, sent("k1"));
    assert_eq!(folder.local().find(&part, "k1").await, found("k1"), "by another process");
    assert_eq!(local.find(&part, "k2").await, Found::Absent);
}

#[tokio::test]
async fn wherever_a_writer_was_killed_its_row_is_visible_once_after_reading_back() {
    let folder = Folder::new();
    let part = part(&folder, "hello");
    let local = folder.local();
    assert_eq!(local.send(&part, "k").await, sent("k"));
    let whole = fs::read(folder.outbox()).unwrap();
    for cut in 0..=whole.len() {
        let folder = Folder::new();
        let local = folder.local();
        tear(&folder, b"{\"key\":\"earlier\"}\n");
        tear(&folder, &whole[..cut]);
        match local.find(&part, "k").await {
            Found::Absent => assert_eq!(local.send(&part, "k").await, sent("k"), "cut at {cut}"),
            Found::Sent { .. } => {}
            Found::Unknown { reason } => panic!("cut at {cut}: {reason}"),
        }
        let keys: Vec<_> = rows(&folder).into_iter().map(|row| row["key"].clone()).collect();
        assert_eq!(keys, ["earlier", "k"], "cut at {cut}");
        assert_eq!(local.find(&part, "k").await, found("k"), "cut at {cut}");
    }
}

#[tokio::test]
async fn a_torn_line_does_not_swallow_the_next_one() {
    let folder = Folder::new();
    tear(&folder, b"{\"channel\":\"local\",\"key\":\"to");
    assert_eq!(folder.local().send(&part(&folder, "hello"), "k").await, sent("k"));
    let text = fs::read_to_string(folder.outbox()).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert_eq!(text.lines().next().unwrap(), "{\"channel\":\"local\",\"key\":\"to");
    assert_eq!(rows(&folder).len(), 1);
}

#[tokio::test]
async fn many_at_once_are_all_there_whole_and_once() {
    let folder = Folder::new();
    let local = folder.local();
    let sends: Vec<_> = (0..40)
        .map(|number| {
            let local = std::sync::Arc::clone(&local);
            let parts = local.render(&reply(&format!("peer{number}"), &"x".repeat(number * 500)));
            spawn("send", async move { local.send(&parts[0], &format!("k{number}")).await })
        })
        .collect();
    for (number, send) in sends.into_iter().enumerate() {
        assert_eq!(send.join().await.unwrap(), sent(&format!("k{number}")));
    }
    let mut seen: Vec<_> = rows(&folder)
        .iter()
        .map(|row| {
            let number: usize = row["key"].as_str().unwrap()[1..].parse().unwrap();
            assert_eq!(row["sessionKey"], format!("peer{number}"));
            assert_eq!(row["output"]["text"].as_str().unwrap().len(), number * 500);
            number
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_path_that_can_never_be_written_is_refused_with_a_reason() {
    let folder = Folder::new();
    fs::create_dir_all(folder.outbox()).unwrap();
    let part = part(&folder, "hello");
    let SendOutcome::Rejected { reason } = folder.local().send(&part, "k").await else { panic!() };
    assert!(reason.contains("outbox.jsonl") && reason.contains("channels.local"), "{reason}");
    let Found::Unknown { reason } = folder.local().find(&part, "k").await else { panic!() };
    assert!(reason.contains("outbox.jsonl"), "{reason}");
}

#[tokio::test]
async fn a_stored_part_that_is_no_row_is_refused() {
    let folder = Folder::new();
    let broken = Part { body: "hello".to_owned(), lane: "local:work:main".to_owned() };
    assert!(matches!(folder.local().send(&broken, "k").await, SendOutcome::Rejected { .. }));
    assert!(!folder.outbox().exists());
}
