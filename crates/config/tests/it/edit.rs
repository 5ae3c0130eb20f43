//! Editing: what is asked for is written, and nothing is lost.

use std::os::unix::fs::symlink;

use serde_json::json;
use tidegate_config::{Change, EditError, StoreError};

use crate::home::Home;

const FILE: &str = "// mine\n{\n  gateway: { port: 1 }, // keep\n}\n";

#[test]
fn an_edit_changes_the_key_and_keeps_every_comment() {
    let home = Home::with(FILE);
    let edited = home.set("gateway.port", 2).unwrap();
    assert_eq!(home.text(), FILE.replace("port: 1", "port: 2"));
    assert_eq!(home.load().unwrap().hash, edited.hash);
    assert_ne!(edited.hash, edited.previous_hash);
    assert_eq!(home.mode("config.json5"), 0o600);
    assert_eq!(home.mode("revisions"), 0o700);
}

#[test]
fn a_missing_file_is_created_with_a_head() {
    let home = Home::empty();
    home.set("agents.defaults.model.primary", "offline").unwrap();
    let text = home.text();
    assert!(text.starts_with("// Configuration of Tidegate"), "{text}");
    assert!(text.ends_with("{\n  agents: {\n    defaults: {\n      model: {\n        primary: \"offline\"\n      }\n    }\n  }\n}\n"), "{text}");
    assert_eq!(home.mode("config.json5"), 0o600);
}

#[test]
fn the_first_agent_can_be_set_in_a_file_without_agents() {
    let home = Home::with("{}");
    home.set("agents.list[0].id", "main").unwrap();
    home.set("agents.list[1]", json!({"id": "second"})).unwrap();
    let agents = home.load().unwrap().config.agents.list;
    assert_eq!(agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["main", "second"]);
}

#[test]
fn an_edit_that_would_break_the_file_is_refused_with_all_problems() {
    let home = Home::with(FILE);
    let error = home.set("gateway", json!({"port": 0, "prot": 1})).unwrap_err();
    let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
    assert!(lines[0].ends_with("config.json5: not changed, because it would then be wrong:"), "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            "gateway.port: expected a whole number from 1 to 65535, got 0",
            r#"gateway.prot: unknown key, did you mean "gateway.port"?"#,
        ]
    );
    assert_eq!(error.code(), "CONFIG_INVALID");
    assert_eq!(home.text(), FILE);
}

#[test]
fn a_wrong_file_may_be_mended_one_key_at_a_time_and_not_made_worse() {
    let home = Home::with("{\n  one: 1,\n  two: 2,\n  gateway: { port: 1 },\n}\n");
    assert!(matches!(home.set("gateway.port", 2), Err(EditError::Refused { .. })));
    assert!(matches!(home.set("three", 3), Err(EditError::Refused { .. })));
    let edited = home.unset("one").unwrap();
    assert_eq!(edited.remaining.len(), 1);
    assert!(!edited.revision.good);
    let edited = home.unset("two").unwrap();
    assert_eq!((edited.remaining, edited.revision.good), (vec![], true));
    assert_eq!(home.text(), "{\n  gateway: { port: 1 },\n}\n");
}

#[test]
fn a_shell_without_the_services_variables_can_edit_but_not_add_a_missing_one() {
    let home = Home::with(
        "{ models: { providers: { p: { api: 'ollama', baseUrl: 'http://h', apiKey: '${KEY}' } } } }",
    );
    assert_eq!(home.set("ui.language", "en").unwrap().remaining.len(), 1);
    let error = home.set("gateway.bind", "${BIND}").unwrap_err();
    assert!(error.to_string().contains(r#"Missing env var "BIND""#), "{error}");
}

#[test]
fn a_base_hash_that_is_not_the_files_is_a_conflict() {
    let home = Home::with(FILE);
    let change = Change::Set { path: "gateway.port".parse().unwrap(), value: json!(2) };
    let hash = home.load().unwrap().hash;
    home.write("config.json5", FILE.replace("mine", "yours"));
    let error = home.file.edit(&change, Some(&hash), &home.env, 0).unwrap_err();
    assert!(matches!(error, EditError::Store(StoreError::Conflict)));
    assert_eq!(error.code(), "CONFIG_CONFLICT");
    assert_eq!(error.to_string(), "config changed since last load; re-run config.get and retry");
    assert_eq!(home.text(), FILE.replace("mine", "yours"));
    let hash = home.load().unwrap().hash;
    home.file.edit(&change, Some(&hash), &home.env, 0).unwrap();
}

#[test]
fn every_error_of_an_edit_has_its_code_and_leaves_the_file() {
    let home = Home::with("{ gateway: { port: 1 }, agents: { list: [{ id: 'a' }] } }");
    let before = home.text();
    let errors = [
        home.unset("ui.language").unwrap_err(),
        home.set("gateway.port.deep", 1).unwrap_err(),
        home.set("agents.list[5].id", "x").unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| (error.code(), error.to_string())),
        [
            ("CONFIG_PATH", "ui.language is not set in this file".to_owned()),
            (
                "CONFIG_PATH",
                "gateway.port holds a number, which has no keys; unset it first or choose another path"
                    .to_owned()
            ),
            (
                "CONFIG_PATH",
                "agents.list is a list of 1: use an index from 0 to 1 (the last one appends)".to_owned()
            ),
        ]
    );
    assert_eq!(home.text(), before);
    home.write("config.json5", "{ broken");
    assert_eq!(home.set("gateway.port", 1).unwrap_err().code(), "CONFIG_SYNTAX");
    assert_eq!(home.text(), "{ broken");
}

#[test]
fn a_symbolic_link_is_edited_where_it_leads() {
    let home = Home::empty();
    std::fs::create_dir(home.path("dotfiles")).unwrap();
    home.write("dotfiles/tidegate.json5", FILE);
    symlink("dotfiles/tidegate.json5", home.file.path()).unwrap();
    home.set("gateway.port", 2).unwrap();
    assert!(std::fs::symlink_metadata(home.file.path()).unwrap().is_symlink());
    assert_eq!(
        std::fs::read_to_string(home.path("dotfiles/tidegate.json5")).unwrap(),
        FILE.replace("port: 1", "port: 2")
    );
}

#[test]
fn an_edit_that_changes_nothing_does_not_touch_the_file() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::with(FILE);
    let inode = || std::fs::metadata(home.file.path()).unwrap().ino();
    let before = inode();
    let edited = home.set("gateway.port", 1).unwrap();
    assert_eq!(edited.hash, edited.previous_hash);
    assert_eq!(inode(), before);
}

#[test]
fn what_a_killed_writer_left_is_neither_read_nor_kept() {
    let home = Home::with(FILE);
    home.write(".config.json5.0123456789abcdef.tmp", "{ half");
    assert!(home.load().is_ok());
    home.set("gateway.port", 2).unwrap();
    assert!(!home.path(".config.json5.0123456789abcdef.tmp").exists());
    let names: Vec<_> =
        std::fs::read_dir(home.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
