//! `config …`: reading, changing, checking and bringing back, and what a wrong file does to the other commands.

use std::fs;

use serde_json::{Value, json};

use crate::home::{Home, names};

#[test]
fn without_a_file_every_key_has_its_default() {
    let home = Home::new();
    assert_eq!(home.call(&["config", "get", "--json"]).json(), json!({}));
    assert_eq!(home.call(&["config", "get", "--effective", "gateway.port"]).ok().stdout, "18789\n");
    assert!(
        home.call(&["config", "validate"]).ok().stdout.contains("does not exist; every key has its default")
    );
    assert_eq!(home.call(&["config", "revisions", "--json"]).json(), json!({ "revisions": [] }));
    assert!(home.call(&["config", "revisions"]).ok().stdout.starts_with("No revisions yet."));
    let path = home.call(&["config", "path", "--json"]).json();
    assert_eq!(path, json!({ "path": home.root().join("config.json5"), "exists": false }));
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn the_path_is_printed_for_an_editor() {
    let home = Home::new();
    let expected = format!("{}\n", home.root().join("config.json5").display());
    assert_eq!(home.call(&["config", "path"]).ok().stdout, expected);
}

#[test]
fn a_set_value_is_read_back_and_unset_again() {
    let home = Home::new();
    home.call(&["config", "set", "agents.defaults.timeoutSeconds", "60"]).ok();
    home.call(&["config", "set", "agents.defaults.model.primary", "offline"]).ok();
    let get = |path: &str| home.call(&["config", "get", path]).ok().stdout;
    assert_eq!(get("agents.defaults.timeoutSeconds"), "60\n");
    assert_eq!(get("agents.defaults.model.primary"), "offline\n", "text is printed as it is");
    assert_eq!(home.call(&["config", "get", "agents.defaults.model.primary", "--json"]).json(), "offline");
    home.call(&["config", "unset", "agents.defaults.timeoutSeconds"]).ok();
    let failed = home.call(&["config", "get", "agents.defaults.timeoutSeconds"]).fails("NOT_FOUND");
    assert_eq!(failed.message, "agents.defaults.timeoutSeconds is not set");
    assert_eq!(home.ask("and it works")["success"], true);
}

#[test]
fn a_change_keeps_comments_and_order() {
    let home = Home::new();
    let before =
        "// mine\n{\n  ui: { language: 'en' }, // why\n  agents: { defaults: { timeoutSeconds: 30 } },\n}\n";
    home.write_config(before);
    home.call(&["config", "set", "agents.defaults.timeoutSeconds", "45"]).ok();
    assert_eq!(home.read_config(), before.replace("30", "45"));
}

#[test]
fn a_change_that_would_be_wrong_is_refused_with_every_reason_and_the_file_stays() {
    let home = Home::new();
    let before = "{ gateway: { port: 18790 } }\n";
    home.write_config(before);
    for (path, value, reason) in [
        ("gateway.prot", "1", "did you mean \"gateway.port\"?"),
        ("gateway.port", "abc", "expected a whole number from 1 to 65535"),
        ("gateway.port", "0", "gateway.port"),
        ("agents.defaults.timeoutSecond", "1", "timeoutSeconds"),
    ] {
        let failed = home.call(&["config", "set", path, value]).fails("CONFIG_INVALID");
        assert!(failed.stderr.contains(reason), "{failed:?}");
        assert_eq!(home.read_config(), before);
    }
    home.call(&["config", "set", "a..b", "1"]).fails("CONFIG_PATH");
    home.call(&["config", "set", "gateway.port"]).fails("MISSING_VALUE");
    assert_eq!(home.read_config(), before);
    assert_eq!(
        home.call(&["config", "revisions", "--json"]).json(),
        json!({ "revisions": [] }),
        "nothing was saved"
    );
}

#[test]
fn a_refused_change_makes_no_home() {
    let home = Home::new();
    for words in [
        ["config", "set", "gateway.prot", "1"].as_slice(),
        &["config", "unset", "gateway.port"],
        &["config", "rollback", "1"],
    ] {
        assert_eq!(home.call(words).run().code, Some(1), "{words:?}");
        assert!(!home.root().exists(), "{words:?} made {:?}", names(home.around()));
    }
}

#[test]
fn a_misspelt_key_gets_a_suggestion_wherever_it_is_met() {
    let home = Home::new();
    home.write_config("{ gateway: { port: 18790 } }");
    let failed = home.call(&["config", "get", "gateway.prot"]).fails("NOT_FOUND");
    assert!(failed.stderr.contains("gateway.port"), "{failed:?}");
}

#[test]
fn a_stale_hash_stops_a_change() {
    let home = Home::new();
    let first = home.call(&["config", "set", "gateway.port", "1000", "--json"]).json();
    let hash = first["hash"].as_str().unwrap();
    home.call(&["config", "set", "gateway.port", "1001", "--base-hash", hash]).ok();
    home.call(&["config", "set", "gateway.port", "1002", "--base-hash", hash]).fails("CONFIG_CONFLICT");
    assert_eq!(home.call(&["config", "get", "gateway.port"]).ok().stdout, "1001\n");
    home.call(&["config", "rollback", "1", "--base-hash", hash]).fails("CONFIG_CONFLICT");
}

#[test]
fn an_earlier_version_comes_back_as_a_new_one() {
    let home = Home::new();
    home.call(&["config", "set", "gateway.port", "1000"]).ok();
    home.call(&["config", "set", "gateway.port", "1001"]).ok();
    let done = home.call(&["config", "rollback", "1", "--json"]).json();
    assert_eq!((&done["restored"], &done["revision"]), (&json!(1), &json!(3)));
    assert_eq!(home.call(&["config", "get", "gateway.port"]).ok().stdout, "1000\n");
    let listed = home.call(&["config", "revisions", "--json"]).json();
    let numbers: Vec<_> =
        listed["revisions"].as_array().unwrap().iter().map(|row| row["revision"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_revision_that_is_not_there_is_not_found() {
    let home = Home::new();
    home.call(&["config", "set", "gateway.port", "1000"]).ok();
    let before = home.read_config();
    let failed = home.call(&["config", "rollback", "x"]).fails("INVALID_VALUE");
    assert_eq!(home.read_config(), before);
    assert!(!failed.message.contains("--revision"), "there is no such option: {failed:?}");
    let failed = home.call(&["config", "rollback", "99"]).fails("NOT_FOUND");
    assert!(failed.message.contains("99"), "{failed:?}");
}

#[test]
fn a_check_names_every_problem_with_its_path() {
    let home = Home::new();
    home.write_config("{ gateway: { prot: 1, port: 'x' }, agents: { defaults: { timeoutSeconds: -1 } } }");
    let done = home.call(&["config", "validate", "--json"]).run();
    assert_eq!(done.code, Some(1));
    let told = done.json();
    assert_eq!(told["valid"], false);
    let mut paths: Vec<_> = told["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["agents.defaults.timeoutSeconds", "gateway.port", "gateway.prot"]);
    let failed = home.call(&["config", "validate"]).fails("CONFIG_INVALID");
    for path in paths {
        assert!(failed.stderr.contains(path), "{path}: {failed:?}");
    }
}

#[test]
fn the_schema_describes_the_keys() {
    let home = Home::new();
    let schema = home.call(&["config", "schema"]).json();
    assert_eq!(schema["properties"]["gateway"]["properties"]["port"]["minimum"], 1);
    assert_eq!(schema["additionalProperties"], Value::Bool(false));
}

/// What a program that cannot trust its file says.
fn refusals(home: &Home, code: &str) {
    for words in [["ask", "hi"].as_slice(), &["sessions", "list"], &["runs", "list"], &["status"]] {
        let failed = home.call(words).fails(code);
        assert!(failed.stderr.contains("config.json5"), "{failed:?}");
        assert!(failed.stderr.contains("tidegate config validate"), "{failed:?}");
    }
}

#[test]
fn a_wrong_file_without_a_good_one_before_it_is_refused() {
    let home = Home::new();
    home.write_config("{ gateway: { prot: 1 } }");
    refusals(&home, "CONFIG_INVALID");
    let failed = home.call(&["ask", "hi"]).fails("CONFIG_INVALID");
    assert!(
        failed.stderr.contains("gateway.prot: unknown key, did you mean \"gateway.port\"?"),
        "{failed:?}"
    );
    assert!(!home.database().exists(), "nothing ran with silent defaults");
}

#[test]
fn a_wrong_file_after_a_good_one_goes_on_with_the_good_one_and_a_banner() {
    let home = Home::new();
    home.write_config("{ agents: { defaults: { timeoutSeconds: 1 } } }");
    home.ask("one");
    home.write_config("{ agents: { defaults: { timeoutSecond: 1 } } }");
    let done = home.call(&["ask", "two"]).ok();
    assert_eq!(done.json()["success"], true, "the answer on stdout is not disturbed");
    assert!(
        done.stderr.starts_with("!! ") && done.stderr.contains("Going on with the last good configuration"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("agents.defaults.timeoutSecond") && done.stderr.contains("timeoutSeconds"),
        "{done:?}"
    );
    let failed = home
        .call(&["ask", "x"])
        .env("TIDEGATE_FAULT", "models.offline.start=hang")
        .fails("DEADLINE_EXCEEDED");
    assert!(failed.message.contains("within 1 s"), "the good value is in force: {failed:?}");
    for words in [["sessions", "list"].as_slice(), &["runs", "list"], &["status"]] {
        assert!(home.call(words).ok().stderr.starts_with("!! "), "{words:?}: loud on every command");
    }
    assert_eq!(home.call(&["status", "--json"]).json()["config"]["origin"], "lastGood");
    home.call(&["config", "validate"]).fails("CONFIG_INVALID");
    assert!(home.read_config().contains("timeoutSecond:"), "the owner's file is untouched");
    let good = home.call(&["config", "revisions", "--json"]).json()["revisions"][0]["revision"].to_string();
    home.call(&["config", "rollback", &good]).ok();
    assert_eq!(home.call(&["ask", "three"]).ok().stderr, "");
}

#[test]
fn a_file_of_garbage_is_refused_in_words() {
    for garbage in
        [b"\x00\xff\xfe\x80garbage".as_slice(), b"{ gateway: {", b"[]", b"\"text\"", b"{} trailing"]
    {
        let home = Home::new();
        fs::create_dir_all(home.root()).unwrap();
        fs::write(home.root().join("config.json5"), garbage).unwrap();
        for words in [["ask", "hi"].as_slice(), &["config", "validate"], &["status"]] {
            let done = home.call(words).run();
            assert_eq!(done.code, Some(1), "{garbage:?}: {done:?}");
            assert!(done.stderr.starts_with("[CONFIG_"), "{garbage:?}: {done:?}");
            assert!(!done.stderr.contains("INTERNAL"), "{garbage:?}: {done:?}");
        }
        let done = home.call(&["config", "set", "gateway.port", "1000"]).run();
        assert_eq!(done.code, Some(1), "{garbage:?}: {done:?}");
        assert_eq!(fs::read(home.root().join("config.json5")).unwrap(), garbage, "the file stays");
    }
}

#[test]
fn an_empty_file_is_an_empty_configuration_or_an_error_and_never_a_crash() {
    let home = Home::new();
    home.write_config("");
    let done = home.call(&["ask", "hi"]).run();
    assert!(done.code == Some(0) || done.stderr.starts_with("[CONFIG_SYNTAX] "), "{done:?}");
}

#[test]
fn a_file_that_is_a_folder_is_named() {
    let home = Home::new();
    fs::create_dir_all(home.root().join("config.json5")).unwrap();
    let failed = home.call(&["ask", "hi"]).fails("CONFIG_IO");
    assert!(failed.message.contains("config.json5"), "{failed:?}");
}

#[test]
fn variables_and_includes_are_resolved_and_their_absence_is_named() {
    let home = Home::new();
    home.write_config(
        "{ $include: './more.json5', agents: { defaults: { model: { primary: '${MODEL}' } } } }",
    );
    let failed = home.call(&["config", "validate"]).run();
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.stderr.contains("more.json5") && failed.stderr.contains("MODEL"),
        "all at once: {failed:?}"
    );
    fs::write(home.root().join("more.json5"), "{ ui: { language: 'en' } }").unwrap();
    let done = home.call(&["config", "get", "--effective", "ui.language"]).env("MODEL", "offline").run();
    assert_eq!(done.stdout, "en\n", "{done:?}");
}

#[test]
fn a_key_without_an_effect_is_told_when_it_is_set_and_not_with_every_question() {
    let home = Home::new();
    let set = home.call(&["config", "set", "agents.defaults.memorySearch.enabled", "false"]).ok();
    assert!(set.stderr.contains("memorySearch"), "{set:?}");
    assert!(home.call(&["config", "validate"]).ok().stderr.contains("memorySearch"));
    assert_eq!(home.call(&["ask", "hi"]).ok().stderr, "");
}
