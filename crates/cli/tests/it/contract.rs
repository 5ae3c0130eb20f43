//! The contract of `ask` and the shell around it: the acceptance cases, in their order.

use std::fs;

use serde_json::{Value, json};

use crate::home::{Home, names};
use crate::log::{Log, context_of, is_alias, is_iso_time};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn help_names_every_command_that_works_and_has_three_spellings() {
    let home = Home::new();
    let help = home.call(&["--help"]).ok();
    let listed: Vec<_> = help.stdout.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    for command in [
        "ask",
        "sessions list",
        "sessions show",
        "sessions export",
        "sessions delete",
        "runs list",
        "runs show",
        "runs replay",
        "status",
        "config get",
        "config set",
        "config unset",
        "config validate",
        "config schema",
        "config path",
        "config revisions",
        "config rollback",
        "version",
    ] {
        assert!(listed.iter().any(|line| line.starts_with(command)), "{command}: {}", help.stdout);
        let words: Vec<_> = ["help"].into_iter().chain(command.split(' ')).collect();
        home.call(&words).ok();
    }
    assert_eq!(help.stderr, "");
    for words in [["help"], ["-h"]] {
        assert_eq!(home.call(&words).ok().stdout, help.stdout, "{words:?}");
    }
}

#[test]
fn without_words_the_program_shows_its_help() {
    let home = Home::new();
    assert_eq!(home.call(&[]).ok().stdout, home.call(&["--help"]).ok().stdout);
    assert!(!home.root().exists(), "help makes no home");
}

#[test]
fn every_command_has_a_help_page_of_its_own() {
    let home = Home::new();
    for command in
        [["ask"].as_slice(), &["sessions", "list"], &["runs", "replay"], &["config", "set"], &["status"]]
    {
        let page = home.call(&[command, &["--help"]].concat()).ok().stdout;
        assert!(page.contains(&format!("tidegate {}", command.join(" "))), "{page}");
        assert_eq!(home.call(&[&["help"], command].concat()).ok().stdout, page);
    }
}

#[test]
fn the_version_is_a_number_under_each_of_its_names() {
    let home = Home::new();
    for word in ["--version", "-v", "version"] {
        assert_eq!(home.call(&[word]).ok().stdout, format!("tidegate v{}\n", env!("CARGO_PKG_VERSION")));
    }
    let told = home.call(&["version", "--json"]).json();
    assert_eq!(told, json!({ "name": "tidegate", "version": env!("CARGO_PKG_VERSION") }));
}

#[test]
fn an_unknown_command_is_named_and_nothing_is_printed_for_a_pipe() {
    let home = Home::new();
    let failed = home.call(&["bogus"]).fails("UNKNOWN_COMMAND");
    assert_eq!(failed.message, "Unknown command: bogus");
    assert_eq!(failed.stdout, "");
    let failed = home.call(&["statsu"]).fails("UNKNOWN_COMMAND");
    assert!(failed.stderr.contains("Did you mean status?"), "{failed:?}");
}

#[test]
fn asking_nothing_is_refused_with_the_usage_and_leaves_no_trace() {
    let home = Home::new();
    for words in [["ask"].as_slice(), &["ask", "   "], &["ask", "", " \t "], &["ask", "--stdin"]] {
        let failed = home.call(words).fails("ASK_INPUT_REQUIRED");
        assert_eq!(failed.message, "ask command requires non-empty input");
        assert!(failed.stderr.contains("Usage: tidegate ask <input>"), "{failed:?}");
        assert_eq!(
            serde_json::from_str::<Value>(&failed.stdout).unwrap(),
            json!({ "success": false, "error": { "code": "ASK_INPUT_REQUIRED", "message": failed.message } })
        );
    }
    assert!(!home.root().exists(), "nothing was made");
}

#[test]
fn a_question_is_answered_offline_with_the_object_of_the_contract() {
    let home = Home::new();
    let done = home.call(&["ask", "你好"]).ok();
    let answer = done.json();
    assert_eq!(done.stdout, format!("{answer:#}\n"), "one object, indented by two");
    let (request, session) = (answer["requestId"].as_str().unwrap(), answer["sessionId"].as_str().unwrap());
    assert!(is_alias(request) && is_alias(session), "{answer}");
    assert!(is_iso_time(answer["createdAt"].as_str().unwrap()), "{answer}");
    let expected = json!({
        "success": true,
        "requestId": request,
        "createdAt": answer["createdAt"],
        "route": "echo",
        "stage": "adapter.stub.echo",
        "result": format!("[stub-echo][{session}] context=1条消息，已接收到输入：你好"),
        "sessionKey": "main",
        "sessionId": session,
        "memoryEnabled": false,
        "memoryUpdated": false,
        "toolCalls": [],
        "toolResults": [],
        "sessionContextUpdated": false,
    });
    assert_eq!(answer, expected);
    assert_eq!(keys(&answer), keys(&expected), "the keys have the contract's order");
}

#[test]
fn an_answered_question_is_in_the_index_and_in_the_transcript() {
    let home = Home::new();
    let answer = home.ask("你好");
    let sessions = home.sessions();
    assert_eq!(sessions.len(), 1);
    let row = &sessions[0];
    assert_eq!((&row["sessionKey"], &row["sessionId"]), (&json!("main"), &answer["sessionId"]));
    assert_eq!((&row["messages"], &row["route"], &row["current"]), (&json!(2), &json!("echo"), &json!(true)));
    let log = Log::of(&home, "main");
    assert_eq!(log.questions(), ["你好"]);
    assert_eq!(log.answers(), [answer["result"].as_str().unwrap()]);
}

#[test]
fn a_second_question_goes_on_in_the_same_session_with_more_context() {
    let home = Home::new();
    let (first, second) = (home.ask("one"), home.ask("two"));
    assert_eq!(first["sessionId"], second["sessionId"]);
    assert_ne!(first["requestId"], second["requestId"]);
    assert_eq!(context_of(second["result"].as_str().unwrap()), 3);
    assert_eq!(Log::of(&home, "main").questions(), ["one", "two"]);
}

#[test]
fn a_new_session_leaves_the_old_log_as_it_was_and_the_index_points_to_the_new_one() {
    let home = Home::new();
    let old = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    home.ask("two");
    let before = fs::read(home.transcript(&old)).unwrap();
    let answer = home.call(&["ask", "--new-session", "x"]).json();
    assert_ne!(answer["sessionId"], old.as_str());
    assert_eq!(answer["sessionKey"], "main");
    assert_eq!(context_of(answer["result"].as_str().unwrap()), 1);
    assert_eq!(fs::read(home.transcript(&old)).unwrap(), before, "the old transcript is unchanged");
    assert_eq!(Log::of(&home, "main").session_id, answer["sessionId"].as_str().unwrap());
    assert_eq!(Log::of(&home, &old).questions(), ["one", "two"], "the old log is still there under its id");
    let current: Vec<_> = home.sessions().into_iter().filter(|row| row["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["sessionId"], answer["sessionId"]);
}

#[test]
fn sessions_of_two_names_are_two_conversations() {
    let home = Home::new();
    let (work, main) = (home.call(&["ask", "--session", "work", "a"]).json(), home.ask("b"));
    assert_ne!(work["sessionId"], main["sessionId"]);
    let mut keys: Vec<_> = home.sessions().iter().map(|row| row["sessionKey"].clone()).collect();
    keys.sort_by_key(Value::to_string);
    assert_eq!(keys, ["main", "work"]);
    let again = home.call(&["ask", "c", "--session=work"]).json();
    assert_eq!(again["sessionId"], work["sessionId"], "`--session=work` equals `--session work`");
    assert_eq!(Log::of(&home, "work").questions(), ["a", "c"]);
}

#[test]
fn asking_for_a_summary_takes_the_other_route() {
    let home = Home::new();
    for (at, input) in ["请总结一下", "Summary please", "a SUMMARY"].into_iter().enumerate() {
        let answer = home.ask(input);
        assert_eq!((&answer["route"], &answer["stage"]), (&json!("summary"), &json!("adapter.stub.summary")));
        let count = 2 * at + 1;
        let expected = format!("[stub-summary] context={count}条消息：我已接收到你的内容：{input}");
        assert_eq!(answer["result"], expected);
    }
}

#[test]
fn an_unknown_provider_is_refused_and_the_known_ones_are_named() {
    let home = Home::new();
    let failed = home.call(&["ask", "--provider", "foo", "hi"]).fails("UNSUPPORTED_PROVIDER");
    assert_eq!(failed.message, "Unsupported provider: foo");
    assert!(failed.stderr.contains("offline, ") && failed.stderr.contains("openai-codex, "), "{failed:?}");
    assert!(!home.root().exists(), "nothing was made");
}

#[test]
fn a_provider_without_a_login_says_how_to_log_in_and_records_nothing() {
    let home = Home::new();
    home.ask_in("other", "so that there is an index");
    let before = home.sessions();
    let failed = home.call(&["ask", "--provider", "openai-codex", "hi"]).fails("AUTH_REQUIRED");
    assert!(failed.stderr.contains("auth login openai-codex"), "{failed:?}");
    home.call(&["ask", "--session", "other", "--provider=openai-codex", "hi"]).fails("AUTH_REQUIRED");
    assert_eq!(home.sessions(), before);
    assert_eq!(home.runs().len(), 1);
}

#[test]
fn mistakes_in_options_have_the_words_of_the_contract() {
    let home = Home::new();
    for (words, code, message) in [
        (["ask", "--bogus", "hi"].as_slice(), "UNKNOWN_OPTION", "Unknown option: --bogus"),
        (&["ask", "--session"], "MISSING_VALUE", "Missing value for session"),
        (&["ask", "--session", "--new-session", "hi"], "MISSING_VALUE", "Missing value for session"),
        (&["ask", "--memory=maybe", "hi"], "INVALID_VALUE", "Invalid value for --memory at arg 1: maybe"),
        (
            &["ask", "--tool-max-steps", "0", "hi"],
            "INVALID_VALUE",
            "Invalid value for --tool-max-steps at arg 1: 0",
        ),
        (
            &["ask", "--tool-max-steps", "abc", "hi"],
            "INVALID_VALUE",
            "Invalid value for --tool-max-steps at arg 1: abc",
        ),
        (
            &["ask", "--with-tools=maybe", "hi"],
            "INVALID_VALUE",
            "Invalid value for --with-tools at arg 1: maybe",
        ),
    ] {
        assert_eq!(home.call(words).fails(code).message, message);
    }
    assert!(!home.root().exists(), "nothing was made");
}

#[test]
fn a_failed_ask_in_a_pipe_has_one_shape_whatever_went_wrong() {
    let home = Home::new();
    home.ask("so that there is a home");
    for (words, code) in [
        (["ask"].as_slice(), "ASK_INPUT_REQUIRED"),
        (&["ask", "--provider", "foo", "hi"], "UNSUPPORTED_PROVIDER"),
        (&["ask", "--provider", "openai-codex", "hi"], "AUTH_REQUIRED"),
        (&["ask", "--tool-max-steps", "0", "hi"], "INVALID_VALUE"),
        (&["ask", "--timeout", "no", "hi"], "INVALID_VALUE"),
        (&["ask", "--agent", "nobody", "hi"], "NOT_FOUND"),
        (&["ask", "--bogus", "hi"], "UNKNOWN_OPTION"),
        (&["ask", "--session"], "MISSING_VALUE"),
        (&["ask", "--with-tools=maybe", "hi"], "INVALID_VALUE"),
        (&["agent", "--bogus", "hi"], "UNKNOWN_OPTION"),
    ] {
        let failed = home.call(words).fails(code);
        assert!(
            !failed.stdout.is_empty(),
            "{words:?} printed no JSON for the script that reads it: {failed:?}"
        );
    }
}

#[test]
fn an_empty_tool_list_is_the_default_list() {
    let home = Home::new();
    for words in [["ask", "--tool-allow", "", "hi"].as_slice(), &["ask", "--tool-allow=", "hi"]] {
        assert_eq!(home.call(words).json()["success"], true);
    }
}

#[test]
fn switches_take_the_words_of_the_contract() {
    let home = Home::new();
    for word in ["--with-tools", "--no-with-tools", "--with-tools=on", "--with-tools=true", "--with-tools=1"]
    {
        home.call(&["ask", word, "hi"]).ok();
    }
    for word in ["--with-tools=off", "--with-tools=false", "--with-tools=0", "--no-memory", "--memory=off"] {
        home.call(&["ask", word, "hi"]).ok();
    }
}

#[test]
fn two_dashes_end_the_options_and_one_dash_is_text() {
    let home = Home::new();
    for (words, input) in [
        (["ask", "--", "--literal"].as_slice(), "--literal"),
        (&["ask", "-x", "-", "y"], "-x - y"),
        (&["ask", "-h"], "-h"),
        (&["ask", "  two ", "words  "], "two  words"),
        (&["ask", "--", "a", "--", "--json"], "a -- --json"),
    ] {
        home.call(words).ok();
        assert_eq!(home.runs().last().unwrap()["input"], input, "{words:?}");
    }
}

#[test]
fn a_session_name_never_leads_outside_the_home() {
    let home = Home::new();
    for name in ["../../x", "/etc/x", "a/../../b", "..", ".", "a\u{2028}b", "名/字", "%2e%2e%2f"] {
        home.ask_in(name, "hi");
        assert_eq!(Log::of(&home, name).questions(), ["hi"], "{name:?}");
    }
    let around = names(home.around());
    let strays: Vec<_> = around.iter().filter(|name| !name.starts_with("home") && *name != "user").collect();
    assert!(strays.is_empty(), "{strays:?}");
    assert_eq!(home.sessions().len(), 8);
}

#[test]
fn the_model_sees_the_whole_conversation_while_it_fits() {
    let home = Home::new();
    let counts: Vec<_> =
        (0..9).map(|at| context_of(home.ask(&format!("q{at}"))["result"].as_str().unwrap())).collect();
    assert_eq!(counts, [1, 3, 5, 7, 9, 11, 13, 15, 17]);
    home.call(&["config", "set", "agents.defaults.historyTurns", "2"]).ok();
    assert_eq!(context_of(home.ask("q9")["result"].as_str().unwrap()), 5, "two turns and the question");
}

#[test]
fn a_failed_new_session_keeps_the_old_one_and_records_nothing() {
    let home = Home::new();
    let old = home.ask("one");
    let before = home.sessions();
    let failed = home
        .call(&["ask", "--new-session", "--timeout", "0.2", "two"])
        .env("TIDEGATE_FAULT", "models.offline.start=hang")
        .fails("DEADLINE_EXCEEDED");
    assert!(failed.message.contains("0.2 s"), "{failed:?}");
    assert_eq!(home.sessions(), before, "the index still points to the old log");
    let next = home.ask("three");
    assert_eq!(next["sessionId"], old["sessionId"]);
    assert_eq!(context_of(next["result"].as_str().unwrap()), 3);
    assert_eq!(Log::of(&home, "main").questions(), ["one", "three"]);
}

#[test]
fn a_group_of_commands_has_help_and_a_hint_keeps_the_home() {
    let home = Home::new();
    for words in [["sessions", "--help"].as_slice(), &["help", "sessions"]] {
        let done = home.call(words).ok();
        assert!(done.stdout.contains("sessions list") && done.stdout.contains("sessions delete"), "{done:?}");
    }
    let elsewhere = home.around().join("user/elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();
    let failed = home.call(&["--home", elsewhere, "sessions", "show", "x"]).fails("NOT_FOUND");
    assert!(failed.stderr.contains(&format!("--home {elsewhere} sessions list")), "{failed:?}");
    home.call(&["--home", elsewhere, "--instance", "x", "status"]).fails("INVALID_VALUE");
}
