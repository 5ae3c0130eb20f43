//! `ask` beyond its contract: other names, standard input, limits, notes for people.

use std::path::Path;

use serde_json::Value;

use crate::home::{Home, PROGRAM};
use crate::log::{Log, context_of};
use crate::process::Call;

#[test]
fn the_program_works_under_the_name_it_is_called_by() {
    let home = Home::new();
    let link = home.link("lainclaw");
    let answer = home.call_as(&link, &["ask", "hi"]).json();
    assert_eq!(answer["route"], "echo");
    let failed = home.call_as(&link, &["ask"]).fails("ASK_INPUT_REQUIRED");
    assert!(failed.stderr.contains("Usage: lainclaw ask <input>"), "{failed:?}");
    let help = home.call_as(&link, &["--help"]).ok().stdout;
    assert!(help.contains("Usage: lainclaw <command>"), "{help}");
}

#[test]
fn agent_is_another_word_for_ask() {
    let home = Home::new();
    let (asked, again) = (home.ask("one"), home.call(&["agent", "two"]).json());
    assert_eq!(asked["sessionId"], again["sessionId"]);
    assert_eq!(Log::of(&home, "main").questions(), ["one", "two"]);
}

#[test]
fn global_options_may_stand_before_or_behind_the_command() {
    let home = Home::new();
    let other = home.around().join("other home");
    let other = other.to_str().unwrap();
    home.call(&["--home", other, "ask", "one"]).ok();
    home.call(&["ask", "--home", other, "two"]).ok();
    home.call(&["ask", "three", &format!("--home={other}"), "--json"]).ok();
    let shown = home.call(&["--json", "--home", other, "sessions", "list"]).json();
    assert_eq!(shown["sessions"][0]["messages"], 6);
    assert!(!home.root().exists(), "--home wins over TIDEGATE_HOME");
}

#[test]
fn the_home_is_in_the_users_home_and_an_instance_has_one_of_its_own() {
    let home = Home::new();
    let user = home.around().join("user");
    let plain = |words: &[&str]| home.call(words).without("TIDEGATE_HOME");
    plain(&["ask", "one"]).ok();
    plain(&["--instance", "lab", "ask", "two"]).ok();
    assert!(user.join(".tidegate/tidegate.db").exists());
    assert!(user.join(".tidegate-lab/tidegate.db").exists());
    assert_eq!(plain(&["sessions", "list", "--json"]).json()["sessions"][0]["messages"], 2);
    plain(&["--instance", "../x", "ask", "three"]).fails("INVALID_VALUE");
}

#[test]
fn text_comes_from_standard_input_behind_the_words() {
    let home = Home::new();
    home.call(&["ask", "--stdin"]).stdin("  from a pipe\n").ok();
    home.call(&["ask", "--stdin", "Explain", "this"]).stdin("line 1\nline 2\n\n").ok();
    home.call(&["ask", "not read"]).stdin("this").ok();
    assert_eq!(
        Log::of(&home, "main").questions(),
        ["from a pipe", "Explain this\n\nline 1\nline 2", "not read"]
    );
}

#[test]
fn any_text_is_kept_as_it_is() {
    let home = Home::new();
    let texts = [
        "\"quoted\" \\ back",
        "emoji 🌊🏳️‍🌈",
        "tab\tand\nline",
        "\u{1b}[31mred\u{7}",
        "'; DROP TABLE runs; --",
        "نص عربي",
    ];
    for text in texts {
        home.ask(text);
    }
    assert_eq!(Log::of(&home, "main").questions(), texts);
    home.call(&["ask", "--stdin"]).stdin(b"a\0b".to_vec()).ok();
    assert_eq!(Log::of(&home, "main").questions().last(), Some(&"a\u{fffd}b"));
}

#[test]
fn a_megabyte_is_taken_and_one_byte_more_is_refused() {
    let home = Home::new();
    let most = "a".repeat(1 << 20);
    assert_eq!(home.call(&["ask", "--stdin"]).stdin(most.clone()).json()["success"], true);
    let failed = home.call(&["ask", "--stdin"]).stdin(format!("{most}a")).fails("INVALID_VALUE");
    assert!(failed.message.contains("1048576"), "{failed:?}");
    assert_eq!(Log::of(&home, "main").questions(), [most.as_str()], "the refused text is nowhere");
    assert_eq!(home.runs().len(), 1);
}

#[test]
fn a_text_above_the_limit_is_never_cut_in_silence() {
    let home = Home::new();
    let most = "a".repeat(1 << 20);
    for text in
        [format!("{most}\nand the part that matters"), format!("  \n{most}, and the part that matters")]
    {
        home.call(&["ask", "--stdin"]).stdin(text).fails("INVALID_VALUE");
    }
    let failed = home.call(&["ask", "--stdin"]).stdin("a".repeat(5 << 20)).fails("INVALID_VALUE");
    assert!(!failed.message.contains("1048577"), "5 MB are not {:?}", failed.message);
}

#[test]
fn a_session_name_that_is_too_long_is_called_that() {
    let home = Home::new();
    home.ask_in(&"n".repeat(256), "hi");
    let failed = home.call(&["ask", "--session", &"n".repeat(257), "hi"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("256"), "{failed:?}");
    home.call(&["ask", "--session=", "hi"]).fails("MISSING_VALUE");
}

#[test]
fn options_that_cannot_work_yet_are_refused_and_not_ignored() {
    let home = Home::new();
    home.call(&["ask", "--memory", "hi"]).fails("UNAVAILABLE");
    home.call(&["ask", "--memory=on", "hi"]).fails("UNAVAILABLE");
    home.call(&["ask", "--profile", "me", "hi"]).fails("INVALID_VALUE");
    for timeout in ["0", "-1", "nan", "inf", "1e9", "ten"] {
        home.call(&["ask", "--timeout", timeout, "hi"]).fails("INVALID_VALUE");
    }
    assert!(!home.root().exists(), "nothing was made");
}

#[test]
fn a_configured_model_that_cannot_answer_is_never_replaced_by_the_offline_one() {
    let home = Home::new();
    home.write_config(
        "{ models: { retries: 0, providers: { acme: { api: 'openai-completions', baseUrl: 'http://127.0.0.1:1/v1', apiKey: 'k' } } },
           agents: { defaults: { model: { primary: 'acme/large' } } } }",
    );
    let failed = home.call(&["ask", "hi"]).fails("MODEL_UNAVAILABLE");
    assert!(
        failed.message.contains("127.0.0.1:1") && failed.stderr.contains("--provider offline"),
        "{failed:?}"
    );
    home.call(&["ask", "--model", "acme/small", "hi"]).fails("MODEL_UNAVAILABLE");
    assert_eq!(home.call(&["ask", "--provider", "offline", "hi"]).json()["route"], "echo");
    let states: Vec<_> = home.runs().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, ["failed", "failed", "completed"]);
}

#[test]
fn agents_have_conversations_of_their_own() {
    let home = Home::new();
    home.write_config("{ agents: { list: [{ id: 'helper' }, { id: 'other' }] } }");
    home.ask("to the first");
    let answer = home.call(&["ask", "--agent", "other", "to the other"]).json();
    assert_eq!(context_of(answer["result"].as_str().unwrap()), 1);
    let failed = home.call(&["ask", "--agent", "nobody", "hi"]).fails("NOT_FOUND");
    assert!(failed.message.contains("helper, other"), "{failed:?}");
    let listed = home.call(&["sessions", "list", "--agent", "other", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    assert!(home.root().join("agents/other/sessions").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    home.call(&["ask", "--stdin"]).stdin("long ".repeat(20_000)).ok();
    for words in [
        ["sessions", "export", "main"].as_slice(),
        &["sessions", "show", "main"],
        &["sessions", "show", "main", "--json"],
        &["runs", "list", "--json"],
    ] {
        let done = home.call(words).start().read_one_byte_and_leave();
        assert_eq!(done.stderr, "", "{done:?}");
        assert_ne!(done.code, Some(101), "{done:?}");
    }
    let done =
        home.call(&["ask", "--stdin"]).stdin("again ".repeat(20_000)).start().read_one_byte_and_leave();
    assert_eq!(done.stderr, "", "{done:?}");
    assert_eq!(Log::of(&home, "main").turns(), 2, "the answer was kept although nobody read it");
}

#[test]
fn every_command_answers_in_json_when_asked() {
    let home = Home::new();
    let empty: &[&[&str]] = &[
        &["sessions", "list"],
        &["runs", "list"],
        &["status"],
        &["version"],
        &["config", "get"],
        &["config", "validate"],
        &["config", "schema"],
        &["config", "path"],
        &["config", "revisions"],
    ];
    for words in empty {
        home.call(&[words, &["--json"][..]].concat()).json();
    }
    assert!(!home.root().exists(), "reading makes no home");
    let request = home.ask("hi")["requestId"].as_str().unwrap().to_owned();
    let file = home.around().join("user/out.jsonl");
    let full: &[&[&str]] = &[
        &["ask", "hi"],
        &["sessions", "show", "main"],
        &["runs", "show", &request],
        &["runs", "replay", &request],
        &["config", "set", "agents.defaults.timeoutSeconds", "60"],
        &["config", "get", "agents.defaults.timeoutSeconds"],
        &["config", "unset", "agents.defaults.timeoutSeconds"],
        &["config", "rollback", "1"],
        &["sessions", "export", "main", "--output", file.to_str().unwrap()],
        &["sessions", "delete", "main", "--yes"],
    ];
    for words in full {
        home.call(&[words, &["--json"][..]].concat()).json();
    }
    let failures: &[(&[&str], &str)] = &[
        (&["bogus"], "UNKNOWN_COMMAND"),
        (&["sessions", "lst"], "UNKNOWN_COMMAND"),
        (&["sessions", "show", "nobody"], "NOT_FOUND"),
        (&["sessions", "delete", "main"], "NOT_FOUND"),
        (&["runs", "show", "nothing"], "NOT_FOUND"),
        (&["runs", "list", "--state", "odd"], "INVALID_VALUE"),
        (&["config", "get", "a..b"], "CONFIG_PATH"),
        (&["status", "--bogus"], "UNKNOWN_OPTION"),
    ];
    for (words, code) in failures {
        let failed = home.call(&[words, &["--json"][..]].concat()).fails(code);
        assert!(!failed.stdout.is_empty(), "{words:?}: {failed:?}");
    }
}

#[test]
fn json_may_be_asked_for_in_each_spelling_of_a_switch() {
    let home = Home::new();
    for word in ["--json", "--json=true", "--json=on", "--json=1"] {
        home.call(&["version", word]).json();
        let failed = home.call(&["runs", "show", "x", word]).fails("NOT_FOUND");
        assert!(!failed.stdout.is_empty(), "{word}: {failed:?}");
    }
}

#[test]
fn without_a_place_for_data_the_program_says_which_variable_is_missing() {
    for value in [None, Some("")] {
        let call = Call::new(Path::new(PROGRAM), &["ask", "hi"]);
        let call = value.iter().fold(call, |call, value| call.env("HOME", value).env("TIDEGATE_HOME", value));
        let failed = call.fails("HOME_UNUSABLE");
        assert!(
            failed.message.contains("HOME is not set") && failed.message.contains("--home"),
            "{failed:?}"
        );
        assert!(serde_json::from_str::<Value>(&failed.stdout).is_ok());
    }
    let home = Home::new();
    for words in [["--home=", "status"].as_slice(), &["--home", "", "status"]] {
        let done = home.call(words).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(!done.stderr.contains("INTERNAL"), "an empty --home is a mistake of the caller: {done:?}");
    }
}
