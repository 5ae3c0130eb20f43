//! Postgres as the command line meets it: absent, refusing, wrongly named.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::home::{Backend, Home};
use crate::log::Log;

const PASSWORD: &str = "Zq7-swordfish-Zq7";

fn home_at(url: &str) -> Home {
    let home = Home::new();
    home.write_config(&format!("{{ storage: {{ backend: 'postgres', postgres: {{ url: '{url}' }} }} }}"));
    home
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_not_running_is_an_error_without_the_password() {
    let port = free_port();
    let home = home_at(&format!("postgres://me:{PASSWORD}@127.0.0.1:{port}/db"));
    for words in [
        ["ask", "hi"].as_slice(),
        &["status"],
        &["sessions", "list"],
        &["runs", "list"],
        &["ask", "hi", "--json"],
    ] {
        let start = Instant::now();
        let failed = home.call(words).fails("STORAGE_UNAVAILABLE");
        assert!(start.elapsed() < Duration::from_secs(15), "{words:?} took {:?}", start.elapsed());
        assert!(failed.message.contains(&port.to_string()), "which server: {failed:?}");
        assert!(failed.stderr.contains("storage.postgres.url"), "where it is set: {failed:?}");
        assert!(!failed.stderr.contains(PASSWORD) && !failed.stdout.contains(PASSWORD), "{failed:?}");
    }
    assert!(!home.database().exists(), "SQLite is never a silent substitute");
}

#[test]
fn a_server_that_never_speaks_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = home_at(&format!("postgres://me:{PASSWORD}@{}/db", silent.local_addr().unwrap()));
    let start = Instant::now();
    let failed = home.call(&["ask", "hi"]).fails("STORAGE_UNAVAILABLE");
    assert!(start.elapsed() < Duration::from_secs(30), "it took {:?}", start.elapsed());
    assert!(!failed.stderr.contains(PASSWORD), "{failed:?}");
}

#[test]
fn an_address_that_is_none_is_an_error_without_the_password() {
    for url in [
        format!("postgres://me:{PASSWORD}@nowhere.invalid/db"),
        format!("mysql://me:{PASSWORD}@127.0.0.1/db"),
    ] {
        let home = home_at(&url);
        let done = home.call(&["ask", "hi"]).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(
            done.stderr.starts_with("[STORAGE_UNAVAILABLE] ") || done.stderr.starts_with("[CONFIG_INVALID] "),
            "{done:?}"
        );
        assert!(!done.stderr.contains(PASSWORD) && !done.stdout.contains(PASSWORD), "{done:?}");
    }
}

#[test]
fn a_backend_without_an_address_says_which_key_is_missing() {
    let home = Home::new();
    home.write_config("{ storage: { backend: 'postgres' } }");
    let done = home.call(&["ask", "hi"]).run();
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.starts_with('[') && done.stderr.contains("storage.postgres.url"), "{done:?}");
}

#[test]
fn the_whole_story_is_the_same_on_postgres() {
    let Some(home) = Home::on(Backend::Postgres) else { return };
    assert_eq!(home.call(&["sessions", "list", "--json"]).json()["sessions"], serde_json::json!([]));
    assert!(
        home.call(&["status", "--json"]).json()["storage"].is_null(),
        "a schema that is not there yet is empty"
    );
    let first = home.ask("one");
    home.ask("two");
    home.call(&["ask", "--new-session", "three"]).ok();
    home.ask_in("other", "four");
    assert_eq!(Log::of(&home, first["sessionId"].as_str().unwrap()).questions(), ["one", "two"]);
    assert_eq!(Log::of(&home, "main").questions(), ["three"]);
    let told = home.call(&["status", "--json"]).json();
    assert_eq!((&told["backend"], &told["storage"]["runs"]["completed"]), (&"postgres".into(), &4.into()));
    let request = first["requestId"].as_str().unwrap();
    assert_eq!(home.call(&["runs", "show", request, "--json"]).json()["result"], first["result"]);
    home.call(&["sessions", "delete", "main", "--yes"]).ok();
    assert_eq!(home.sessions().len(), 1);
    assert!(!home.database().exists(), "no SQLite file beside it");
}

#[test]
fn a_text_with_a_zero_byte_is_kept_on_both() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let Some(home) = Home::on(backend) else { return };
        home.call(&["ask", "--stdin"]).stdin(b"a\0b".to_vec()).ok();
        assert_eq!(Log::of(&home, "main").questions(), ["a\u{fffd}b"]);
    }
}
