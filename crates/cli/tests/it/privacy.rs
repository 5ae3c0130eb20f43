//! Who may read what: modes of files and folders, and secrets that are never printed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::home::{Home, tree};
use crate::process::Call;

/// Long enough and odd enough that no other text contains it.
const SECRET: &str = "Zq7-swordfish-Zq7";

#[test]
fn everything_in_the_home_is_its_owners_alone_whatever_the_umask() {
    for umask in ["022", "000"] {
        let home = Home::new();
        let script = format!("umask {umask} && exec \"$@\"");
        let call = |words: &[&str]| {
            let words = [&["-c", &script, "sh", crate::home::PROGRAM], words].concat();
            Call::new("sh", &words).env("TIDEGATE_HOME", home.root()).env("HOME", home.around())
        };
        call(&["config", "set", "agents.defaults.timeoutSeconds", "60"]).ok();
        call(&["config", "set", "agents.defaults.timeoutSeconds", "61"]).ok();
        call(&["ask", "one"]).ok();
        call(&["ask", "--session", "other", "two"]).ok();
        let id = call(&["ask", "three"]).json()["sessionId"].as_str().unwrap().to_owned();
        fs::write(home.transcript(&id), "garbage").unwrap();
        fs::write(home.root().join("service/instance"), "garbage").unwrap();
        call(&["ask", "four"]).ok();
        let open: Vec<_> = tree(home.around())
            .into_iter()
            .filter(|(path, _, _)| path.starts_with("home"))
            .filter(|(_, mode, folder)| *mode != if *folder { 0o700 } else { 0o600 })
            // The copy that was set aside is the file this test wrote itself.
            .filter(|(path, _, _)| !path.to_string_lossy().contains(".damaged-"))
            .map(|(path, mode, _)| format!("{mode:o} {}", path.display()))
            .collect();
        assert!(open.is_empty(), "umask {umask}: {open:#?}");
    }
}

fn home_with_secrets() -> Home {
    let home = Home::new();
    home.write_config(&format!(
        "{{
           models: {{ providers: {{ acme: {{ api: 'openai-completions', baseUrl: 'https://u:{SECRET}@models.example/v1', apiKey: '{SECRET}' }} }} }},
           storage: {{ postgres: {{ url: 'postgres://me:{SECRET}@db.example/x', migrateUrl: 'postgres://me:{SECRET}@db.example/x' }} }},
           channels: {{ telegram: {{ botToken: '{SECRET}', signingSecret: '{SECRET}' }} }},
           env: {{ vars: {{ ACME_KEY: '{SECRET}' }} }},
         }}"
    ));
    home
}

#[test]
fn a_secret_in_the_file_is_never_printed() {
    let home = home_with_secrets();
    let commands: &[&[&str]] = &[
        &["config", "get"],
        &["config", "get", "--json"],
        &["config", "get", "--effective"],
        &["config", "get", "models"],
        &["config", "get", "models.providers.acme"],
        &["config", "get", "models.providers.acme.apiKey"],
        &["config", "get", "models.providers.acme.baseUrl"],
        &["config", "get", "--effective", "storage.postgres.url"],
        &["config", "get", "storage.postgres.migrateUrl", "--json"],
        &["config", "get", "channels.telegram.botToken"],
        &["config", "get", "env.vars.ACME_KEY"],
        &["config", "validate"],
        &["config", "validate", "--json"],
        &["status"],
        &["status", "--json"],
        &["ask", "hi"],
        &["ask", "--provider", "acme", "hi"],
        &["config", "set", "agents.defaults.timeoutSeconds", "60"],
        &["config", "revisions", "--json"],
        &["runs", "list", "--json"],
    ];
    for words in commands {
        let done = home.call(words).run();
        assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done:?}");
        assert!(done.code == Some(0) || words.contains(&"acme"), "{done:?}");
    }
    let shown = home.call(&["config", "get", "models.providers.acme.apiKey", "--show-secrets"]).ok().stdout;
    assert_eq!(shown, format!("{SECRET}\n"), "unless it is asked for by name");
}

#[test]
fn a_secret_in_a_wrong_file_is_not_printed_with_the_error() {
    let wrong = [
        format!("{{ models: {{ providers: {{ acme: {{ api: 'nonsense', apiKey: '{SECRET}' }} }} }} }}"),
        format!("{{ models: {{ providers: {{ acme: {{ api: 'offline', apiKey: ['{SECRET}'] }} }} }} }}"),
        format!("{{ storage: {{ backend: 'postgres', postgres: {{ url: 'postgres//me:{SECRET}@x' }} }} }}"),
        format!("{{ storage: {{ backend: 'postgres', postgres: {{ url: '{SECRET}' }} }} }}"),
        format!("{{ models: {{ providers: {{ acme: {{ apiKey: '{SECRET}' \"oops\" }} }} }} }}"),
        format!("{{ apiKey: '{SECRET}' }}"),
        format!("{{ gateway: {{ token: '{SECRET}' }} }}"),
        format!("{{ env: {{ vars: {{ KEY: ['{SECRET}'] }} }} }}"),
    ];
    for text in &wrong {
        let home = Home::new();
        home.write_config(text);
        for words in [
            ["ask", "hi"].as_slice(),
            &["config", "validate"],
            &["config", "validate", "--json"],
            &["config", "get"],
        ] {
            let done = home.call(words).run();
            assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{text}\n{done:?}");
        }
    }
    let home = Home::new();
    home.ask("a good start");
    for text in &wrong {
        home.write_config(text);
        let done = home.call(&["ask", "hi"]).run();
        assert!(!done.stderr.contains(SECRET), "{text}\n{done:?}");
    }
}

#[test]
fn a_secret_in_the_place_of_a_section_is_not_printed_with_the_error() {
    for text in [
        format!("{{ channels: {{ telegram: '{SECRET}' }} }}"),
        format!("{{ models: {{ providers: {{ acme: '{SECRET}' }} }} }}"),
        format!("{{ storage: 'postgres://me:{SECRET}@db.example/x' }}"),
    ] {
        let home = Home::new();
        home.write_config(&text);
        for words in [["ask", "hi"].as_slice(), &["config", "validate"], &["config", "validate", "--json"]] {
            let done = home.call(words).run();
            assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{text}\n{done:?}");
        }
    }
}

#[test]
fn a_secret_under_a_misspelt_key_is_not_printed_either() {
    let home = Home::new();
    home.write_config(&format!(
        "{{ models: {{ providers: {{ acme: {{ api: 'offline', apiKye: '{SECRET}' }} }} }}, env: {{ ACME: '{SECRET}' }} }}"
    ));
    for words in [
        ["ask", "hi"].as_slice(),
        &["config", "validate"],
        &["config", "validate", "--json"],
        &["config", "get"],
    ] {
        let done = home.call(words).run();
        assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done:?}");
    }
}

#[test]
fn a_file_with_secrets_that_others_may_read_is_told_to_its_owner() {
    let home = Home::new();
    home.write_config(&format!("{{ env: {{ vars: {{ KEY: '{SECRET}' }} }} }}"));
    assert_eq!(home.call(&["ask", "hi"]).ok().stderr, "");
    let path = home.root().join("config.json5");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let done = home.call(&["ask", "hi"]).ok();
    assert!(done.stderr.contains(&format!("chmod 600 {}", path.display())), "{done:?}");
}

#[test]
fn a_secret_set_on_the_command_line_is_not_repeated() {
    let home = Home::new();
    for words in [
        ["config", "set", "storage.postgres.url", &format!("postgres://me:{SECRET}@db.example/x")].as_slice(),
        &["config", "set", "models.providers.acme.apiKey", SECRET],
    ] {
        let done = home.call(words).run();
        assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done:?}");
    }
}
