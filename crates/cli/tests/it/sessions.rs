//! `sessions list|show|export|delete`: ordinary results, an empty home, mistakes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::home::{Home, names};
use crate::log::{Log, context_of};

#[test]
fn a_home_without_sessions_says_how_to_begin_one() {
    let home = Home::new();
    assert_eq!(
        home.call(&["sessions", "list"]).ok().stdout,
        "No sessions yet. Begin one: tidegate ask hello\n"
    );
    assert_eq!(home.call(&["sessions", "list", "--json"]).json(), json!({ "sessions": [] }));
    for words in [["sessions", "show", "main"], ["sessions", "export", "main"]] {
        let failed = home.call(&words).fails("NOT_FOUND");
        assert_eq!(failed.message, "there is no session main; see: tidegate sessions list");
    }
    home.call(&["sessions", "delete", "main", "--yes"]).fails("NOT_FOUND");
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn the_list_has_the_last_used_first() {
    let home = Home::new();
    for session in ["a", "b", "c", "a"] {
        home.ask_in(session, "hi");
    }
    let keys: Vec<_> = home.sessions().iter().map(|row| row["sessionKey"].clone()).collect();
    assert_eq!(keys, ["a", "c", "b"]);
    let table = home.call(&["sessions", "list"]).ok().stdout;
    let first: Vec<_> = table.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(first, ["session", "a", "c", "b"]);
    let one = home.call(&["sessions", "list", "--limit", "1", "--json"]).json();
    assert_eq!(one["sessions"].as_array().unwrap().len(), 1);
    for limit in ["0", "-1", "x", "10001"] {
        home.call(&["sessions", "list", "--limit", limit]).fails("INVALID_VALUE");
    }
}

#[test]
fn a_row_of_the_list_has_what_the_contracts_index_had() {
    let home = Home::new();
    home.ask("hi");
    let row = &home.sessions()[0];
    for key in ["sessionKey", "sessionId", "createdAt", "updatedAt", "route", "memoryEnabled"] {
        assert!(!row[key].is_null(), "{key}: {row}");
    }
    assert!(row.get("provider").is_none() && row.get("profileId").is_none(), "offline has neither: {row}");
}

#[test]
fn a_conversation_is_found_by_name_by_id_and_by_its_full_key() {
    let home = Home::new();
    let answer = home.ask_in("work", "hi");
    let row = &home.sessions()[0];
    for name in [
        "work",
        answer["sessionId"].as_str().unwrap(),
        row["id"].as_str().unwrap(),
        row["key"].as_str().unwrap(),
    ] {
        let shown = home.call(&["sessions", "show", name, "--json"]).json();
        assert_eq!(shown["sessionId"], answer["sessionId"], "{name}");
        home.call(&["sessions", "export", name]).ok();
    }
}

#[test]
fn showing_prints_who_said_what() {
    let home = Home::new();
    let answer = home.ask("hello");
    let shown = home.call(&["sessions", "show", "main"]).ok().stdout;
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("user  2") && lines[3].starts_with("assistant  2"), "{shown}");
    assert_eq!((lines[1], lines[4]), ("hello", answer["result"].as_str().unwrap()));
}

#[test]
fn a_long_conversation_shows_its_newest_part() {
    let home = Home::new();
    for at in 0..4 {
        home.ask(&format!("q{at}"));
    }
    let shown = home.call(&["sessions", "show", "main", "--json", "--limit", "2"]).json();
    let entries = shown["entries"].as_array().unwrap();
    assert_eq!(entries.iter().map(|entry| entry["seq"].as_i64().unwrap()).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(shown["messages"], 8);
}

#[test]
fn an_export_is_the_whole_conversation_as_lines_or_as_a_page() {
    let home = Home::new();
    home.ask("one");
    home.ask("two");
    let lines = home.call(&["sessions", "export", "main"]).ok().stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["sessionKey"], "main");
    let mut shown = home.call(&["sessions", "show", "main", "--json"]).json();
    assert_eq!(Value::from(lines[1..].to_vec()), shown["entries"].take());
    let page = home.call(&["sessions", "export", "main", "--format", "markdown"]).ok().stdout;
    assert!(
        page.starts_with("# main\n") && page.contains("\n## user (") && page.contains("\ntwo\n"),
        "{page}"
    );
    let failed = home.call(&["sessions", "export", "main", "--format", "pdf"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("jsonl or markdown"), "{failed:?}");
}

#[test]
fn an_export_to_a_file_is_private_and_says_where_it_is() {
    let home = Home::new();
    home.ask("one");
    let file = home.around().join("user/out.jsonl");
    let path = file.to_str().unwrap();
    let done = home.call(&["sessions", "export", "main", "--output", path]).ok();
    assert_eq!(done.stderr, format!("wrote {path}\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), home.call(&["sessions", "export", "main"]).ok().stdout);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let failed = home.call(&["sessions", "export", "main", "--output", "/nowhere/x"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("/nowhere/x"), "{failed:?}");
}

#[test]
fn a_script_must_confirm_a_deletion() {
    let home = Home::new();
    home.ask("one");
    let failed = home.call(&["sessions", "delete", "main"]).fails("MISSING_VALUE");
    assert!(failed.message.contains("--yes"), "{failed:?}");
    assert_eq!(Log::of(&home, "main").turns(), 1);
}

#[test]
fn a_deleted_conversation_is_gone_with_its_files_and_runs() {
    let home = Home::new();
    home.ask("one");
    home.call(&["ask", "--new-session", "two"]).ok();
    home.ask_in("other", "stays");
    let deleted = home.call(&["sessions", "delete", "main", "--yes", "--json"]).json();
    assert_eq!(deleted["deleted"], "main");
    assert_eq!(deleted["sessionIds"].as_array().unwrap().len(), 2, "both logs of the name");
    home.call(&["sessions", "show", "main"]).fails("NOT_FOUND");
    let other = Log::of(&home, "other");
    assert_eq!(names(&home.transcripts()), [format!("{}.jsonl", other.session_id)]);
    let runs: Vec<_> = home.runs().iter().map(|run| run["input"].clone()).collect();
    assert_eq!(runs, ["stays"]);
    let again = home.ask("afresh");
    assert_eq!(context_of(again["result"].as_str().unwrap()), 1);
}

#[test]
fn a_deleted_conversation_leaves_no_copy_of_its_words() {
    let home = Home::new();
    let id = home.ask("a secret of mine")["sessionId"].as_str().unwrap().to_owned();
    let mut text = fs::read(home.transcript(&id)).unwrap();
    text.extend(b"garbage");
    fs::write(home.transcript(&id), text).unwrap();
    home.ask("again");
    home.call(&["sessions", "delete", "main", "--yes"]).ok();
    assert_eq!(names(&home.transcripts()), [""; 0], "a copy set aside is a copy of the conversation too");
}

#[test]
fn an_old_conversation_is_listed_and_its_id_does_not_delete_the_new_one() {
    let home = Home::new();
    let old = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    home.call(&["ask", "--new-session", "two"]).ok();
    assert_eq!(home.sessions().len(), 1);
    let all = home.call(&["sessions", "list", "--all", "--json"]).json();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 2);
    let failed = home.call(&["sessions", "delete", &old, "--yes"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("sessions delete main"), "{failed:?}");
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn a_session_whose_ask_was_killed_can_be_deleted_at_once() {
    let home = Home::new();
    home.ask("one");
    home.call(&["ask", "two"]).env("TIDEGATE_FAULT", "engine.submit.accepted=kill").run();
    home.call(&["sessions", "delete", "main", "--yes"]).ok();
    assert!(home.sessions().is_empty());
}
