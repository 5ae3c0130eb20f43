//! `sessions list|show|export|delete`: ordinary results, an empty home, mistakes.

mod agents;
mod reset;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use tidegate_testkit::model_server::{Kind, Turn};

use crate::gateway::live::Live;
use crate::home::{Home, names};
use crate::log::{Log, context_of};
use crate::talking::Vendor;

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
fn a_conversation_of_another_agent_is_not_meant() {
    let home = Home::new();
    home.write_config(r#"{"agents": {"list": [{"id": "main"}, {"id": "helper"}]}}"#);
    let id = home.ask_in("work", "hi")["sessionId"].as_str().unwrap().to_owned();
    for agent in ["helper", "nobody"] {
        for name in ["work", &id, "main/work"] {
            let failed =
                home.call(&["sessions", "delete", name, "--agent", agent, "--yes"]).fails("NOT_FOUND");
            assert!(failed.message.contains(agent), "{failed:?}");
            home.call(&["sessions", "reset", name, "--agent", agent]).fails("NOT_FOUND");
            home.call(&["sessions", "show", name, "--agent", agent]).fails("NOT_FOUND");
        }
    }
    home.call(&["sessions", "show", "work", "--agent", "main"]).ok();
}

#[test]
fn a_conversation_that_was_begun_anew_is_still_found_by_its_name() {
    let home = Home::new();
    let first = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    home.call(&["sessions", "reset", "main"]).ok();
    let branches = home.call(&["sessions", "branches", "main", "--json"]).json();
    assert_eq!(branches["branches"][0]["sessionId"], first.as_str(), "{branches}");
    home.call(&["sessions", "switch", "main", &first]).ok();
    assert_eq!(context_of(home.ask("two")["result"].as_str().unwrap()), 3, "the reset is undone");
    let failed = home.call(&["sessions", "switch", "main", "nowhere"]).fails("NOT_FOUND");
    assert!(failed.message.contains("sessions branches main"), "{failed:?}");
    home.call(&["sessions", "reset", "main"]).ok();
    let told = home.call(&["sessions", "delete", "main", "--yes"]).ok().stdout;
    assert!(told.contains("earlier conversation"), "{told}");
    home.call(&["sessions", "show", "main"]).fails("NOT_FOUND");
}

#[test]
fn showing_prints_who_said_what() {
    let home = Home::new();
    let answer = home.ask("hello");
    let shown = home.call(&["sessions", "show", "main"]).ok().stdout;
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("1  user  2") && lines[3].starts_with("2  assistant  2"), "{shown}");
    assert_eq!((lines[1], lines[4]), ("hello", answer["result"].as_str().unwrap()));
}

#[test]
fn a_model_cannot_steer_the_terminal_by_the_name_of_a_tool() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let name = "x\u{1b}]52;c;eA==\u{7}\u{202e}";
    vendor.push(Turn::call("c1", name, json!({}))).push(Turn::say("there is no such tool"));
    home.ask("go");
    let shown = home.call(&["sessions", "show", "main"]).ok().stdout;
    let spelled = "x\u{fffd}]52;c;eA==\u{fffd}\u{fffd}";
    assert!(shown.contains(&format!("● {spelled}")) && shown.contains(&format!("✗ {spelled}")), "{shown:?}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
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
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    home.ask("two");
    let lines = home.call(&["sessions", "export", "main"]).ok().stdout;
    let transcript = fs::read_to_string(home.transcript(&id)).unwrap();
    assert!(lines.lines().skip(1).eq(transcript.lines().skip(1)), "{lines}");
    let page = home.call(&["sessions", "export", "main", "--format", "markdown"]).ok().stdout;
    assert!(page.starts_with("# one\n") && page.contains("\n## 2 (") && page.contains("\ntwo\n"), "{page}");
    let page = home.call(&["sessions", "export", "main", "--format", "html", "--output", "-"]).ok().stdout;
    assert!(page.starts_with("<!doctype html>") && page.contains(">two</p>"), "{page}");
    let short = home.call(&["sessions", "export", "main", "--format", "md"]).ok().stdout;
    assert!(short.starts_with("# one\n"), "{short}");
    let failed = home.call(&["sessions", "export", "main", "--format", "pdf"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("markdown, jsonl, html"), "{failed:?}");
}

#[test]
fn an_export_to_a_file_is_what_its_name_says() {
    let home = Home::new();
    home.ask("one");
    for (name, begin) in [("a.md", "# one\n"), ("a.html", "<!doctype html>"), ("a.jsonl", "{"), ("a", "{")] {
        let file = home.around().join("user").join(name);
        home.call(&["sessions", "export", "main", "--output", file.to_str().unwrap()]).ok();
        let written = fs::read_to_string(&file).unwrap();
        assert!(written.starts_with(begin), "{name}: {written}");
    }
    let file = home.around().join("user/a.pdf");
    let export = ["sessions", "export", "main", "--output", file.to_str().unwrap()];
    let failed = home.call(&export).fails("INVALID_VALUE");
    assert!(failed.message.contains(".md, .jsonl or .html") && !file.exists(), "{failed:?}");
    home.call(&[&export[..], &["--format", "html"]].concat()).ok();
}

#[test]
fn an_export_replaces_a_file_only_when_told_to() {
    let home = Home::new();
    home.ask("one");
    let file = home.around().join("user/out.md");
    let export = ["sessions", "export", "main", "--format", "markdown", "--output", file.to_str().unwrap()];
    home.call(&export).ok();
    home.ask("two");
    let failed = home.call(&export).fails("INVALID_VALUE");
    assert!(failed.message.contains("--force"), "{failed:?}");
    assert!(!fs::read_to_string(&file).unwrap().contains("two"));
    home.call(&[&export[..], &["--force"]].concat()).ok();
    assert!(fs::read_to_string(&file).unwrap().contains("two"));
}

#[test]
fn a_fork_stays_with_its_agent_whoever_holds_the_home() {
    let home = Home::new();
    home.write_config("{ agents: { list: [{ id: 'main' }, { id: 'helper' }] } }");
    home.call(&["ask", "--agent", "helper", "--session", "work", "hi"]).ok();
    let fork =
        |to: &str| home.call(&["sessions", "fork", "work", "--agent", "helper", "--force", "--to", to]);
    let whole = |name: &str| format!("tenant:local/workspace:default/agent:helper/name:{name}");
    let all = || {
        fork("copy").ok();
        fork(&whole("other")).ok();
        for name in ["two\nlines", "tenant:nonsense"] {
            fork(name).fails("BAD_REQUEST");
        }
        fork("tenant:local/workspace:default/agent:nobody/main").fails("NOT_FOUND");
    };
    all();
    let held = Live::start(&home);
    all();
    held.end();
    let mut keys: Vec<_> =
        home.sessions().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    assert_eq!(keys, [whole("copy"), whole("other"), whole("work")]);
}

#[test]
fn one_agents_lines_are_searched_when_it_is_named() {
    let home = Home::new();
    home.write_config("{ agents: { list: [{ id: 'main' }, { id: 'helper' }] } }");
    home.ask("a needle of mine");
    home.call(&["ask", "--agent", "helper", "a needle of theirs"]).ok();
    let texts = |words: &[&str]| {
        let found = home.call(&[&["sessions", "search", "needle of", "--json"], words].concat()).json();
        let lines = found["lines"].as_array().unwrap().clone();
        let ours = |line: &&serde_json::Value| line["text"].as_str().unwrap().starts_with("a needle");
        lines.iter().filter(ours).map(|line| line["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&[]), ["a needle of theirs", "a needle of mine"]);
    assert_eq!(texts(&["--agent", "main"]), ["a needle of mine"]);
    assert_eq!(texts(&["--agent", "helper"]), ["a needle of theirs"]);
}

#[test]
fn a_fork_goes_on_from_an_earlier_line_and_the_way_back_is_open() {
    let home = Home::new();
    let first = home.ask("one")["sessionId"].clone();
    home.ask("two");
    let forked = home.call(&["sessions", "fork", "main", "--at", "2", "--json"]).json();
    let three = home.ask("three");
    assert_eq!(three["sessionId"], forked["sessionId"]);
    assert_eq!(context_of(three["result"].as_str().unwrap()), 3, "one, its answer, three");
    let branches = home.call(&["sessions", "branches", "main", "--json"]).json();
    let shown: Vec<_> = branches["branches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["sessionId"], &row["current"]))
        .collect();
    assert_eq!(shown, [(&forked["sessionId"], &json!(true)), (&first, &json!(false))]);
    home.call(&["sessions", "switch", "main", first.as_str().unwrap()]).ok();
    assert_eq!(context_of(home.ask("four")["result"].as_str().unwrap()), 5, "one, two, four");
    home.call(&["sessions", "fork", "main", "--to", "away"]).ok();
    assert_eq!(context_of(home.ask_in("away", "five")["result"].as_str().unwrap()), 7);
    let taken = home.call(&["sessions", "fork", "main", "--to", "away"]).fails("INVALID_VALUE");
    assert!(taken.message.contains("--force"), "{taken:?}");
    home.call(&["sessions", "fork", "main", "--to", "away", "--force"]).ok();
    let no_line = home.call(&["sessions", "fork", "main", "--at", "99"]).fails("NOT_FOUND");
    assert!(no_line.message.ends_with("see: tidegate sessions show main"), "{no_line:?}");
    home.call(&["sessions", "switch", "main", "nowhere"]).fails("NOT_FOUND");
}

#[test]
fn a_title_that_a_person_gave_is_kept_when_the_first_message_is_edited() {
    let home = Home::new();
    home.ask("one");
    home.call(&["sessions", "rename", "main", "my", "own"]).ok();
    home.call(&["sessions", "edit", "main", "--at", "1", "another"]).ok();
    let listed = home.call(&["sessions", "list", "--json"]).json();
    assert_eq!(listed["sessions"][0]["title"], "my own", "{listed}");
}

#[test]
fn a_message_that_is_edited_is_asked_anew_in_its_place() {
    let home = Home::new();
    home.ask("one");
    home.ask("tow");
    let answer = home.call(&["sessions", "edit", "main", "--at", "3", "two", "words", "--json"]).json();
    let said = answer["result"].as_str().unwrap();
    assert!(said.contains("two words") && context_of(said) == 3, "{said}");
    let shown = home.call(&["sessions", "show", "main", "--all"]).ok().stdout;
    assert!(shown.contains("two words") && !shown.contains("tow\n"), "{shown}");
    home.call(&["sessions", "edit", "main", "--at", "4", "x"]).fails("INVALID_VALUE");
    let failed = home.call(&["sessions", "edit", "main", "x"]).fails("MISSING_VALUE");
    assert!(failed.stderr.contains("Write --at <line>: the line, by its number"), "{failed:?}");
    assert!(failed.stderr.contains("<session> <text> --at <line>"), "{failed:?}");
    let failed = home.call(&["sessions", "edit", "main", "--at", "1"]).fails("MISSING_VALUE");
    assert_eq!(failed.message, "Missing argument: <text>");
}

#[test]
fn an_edit_that_is_not_answered_says_how_to_go_back() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("1")).push(Turn::say("2")).push(Turn::refuse(Kind::Server)).push(Turn::say("4"));
    let first = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    home.ask("two");
    let failed = home.call(&["sessions", "edit", "main", "--at", "3", "three"]).run();
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains(&format!("sessions switch main {first}")), "{failed:?}");
    home.call(&["sessions", "switch", "main", &first]).ok();
    home.ask("four");
    assert_eq!(vendor.said(), ["user: one", "assistant: 1", "user: two", "assistant: 2", "user: four"]);
}

#[test]
fn words_are_found_in_every_conversation_also_an_old_one() {
    let home = Home::new();
    home.ask_in("a", "the green Harbour");
    home.ask_in("b", "nothing");
    home.call(&["sessions", "reset", "a"]).ok();
    home.ask_in("a", "afresh");
    let found = home.call(&["sessions", "search", "green", "harbour", "--json"]).json();
    let lines = found["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["sessionKey"] == "a"), "{found}");
    assert_eq!(lines.last().unwrap()["seq"], 1);
    let table = home.call(&["sessions", "search", "green"]).ok().stdout;
    assert!(table.contains("the green Harbour"), "{table}");
    assert_eq!(home.call(&["sessions", "search", "nowhere"]).ok().stdout, "Nothing found for: nowhere\n");
    home.call(&["sessions", "search", "  "]).fails("MISSING_VALUE");
}

#[test]
fn a_conversation_is_called_what_somebody_calls_it() {
    let home = Home::new();
    home.ask("how do I get to Rome?");
    assert_eq!(home.sessions()[0]["title"], "how do I get to Rome?");
    home.call(&["sessions", "rename", "main", "The", "trip"]).ok();
    assert_eq!(home.sessions()[0]["title"], "The trip");
    assert!(home.call(&["sessions", "list"]).ok().stdout.contains("The trip"));
    let said = home.call(&["sessions", "rename", "main"]).ok().stdout;
    assert_eq!((said.as_str(), &home.sessions()[0]["title"]), ("main has no title any more\n", &json!(null)));
    home.call(&["sessions", "rename", "nosuch", "x"]).fails("NOT_FOUND");
    assert_eq!(home.call(&["sessions", "rename", "main"]).ok().stdout, "main has no title any more\n");
}

#[test]
fn a_reset_is_a_new_beginning_and_ask_takes_words_as_they_are() {
    let home = Home::new();
    let first = home.ask("one")["sessionId"].clone();
    home.call(&["sessions", "reset", "main"]).ok();
    let second = home.ask("two");
    assert_ne!(second["sessionId"], first);
    assert_eq!(context_of(second["result"].as_str().unwrap()), 1);
    let literal = home.ask("/new three");
    assert_eq!(literal["sessionId"], second["sessionId"]);
    assert!(literal["result"].as_str().unwrap().contains("/new three"));
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

#[test]
fn what_is_left_out_of_a_conversation_is_counted() {
    let home = Home::new();
    home.ask("one");
    home.ask("two");
    let text = home.call(&["sessions", "show", "main", "--limit", "1"]).ok().stdout;
    assert!(text.starts_with("(3 of 4 lines come before these: --all shows them"), "{text}");
    assert!(!home.call(&["sessions", "show", "main"]).ok().stdout.contains("come before"));
}
