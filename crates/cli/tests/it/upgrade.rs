//! Older and newer data: a migration that is killed goes on, and a newer home is refused.

use std::fs;
use std::path::Path;

use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};

use crate::home::{Backend, Home, names};
use crate::log::Log;

/// An empty database of the first schema, as an earlier release left it.
fn home_of_schema_one() -> Home {
    let home = Home::new();
    fs::create_dir(home.root()).unwrap();
    let options = SqliteOptions { schema: 1, ..SqliteOptions::new(home.database(), Mode::ReadWrite) };
    drop(SqliteStore::open(&options).unwrap());
    assert_eq!(schema(&home.database()), 1);
    home
}

fn schema(database: &Path) -> u32 {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.query_row("SELECT schema FROM meta", [], |row| row.get(0)).unwrap()
}

fn sound(database: &Path) {
    let connection = rusqlite::Connection::open(database).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn an_older_home_is_copied_and_then_migrated() {
    let home = home_of_schema_one();
    home.ask("after the upgrade");
    assert!(schema(&home.database()) > 1);
    let backups = home.root().join("backups");
    let copies = names(&backups);
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert!(copies[0].starts_with("schema-1-"), "{copies:?}");
    assert_eq!(schema(&backups.join(&copies[0])), 1);
    sound(&backups.join(&copies[0]));
    home.ask("again");
    assert_eq!(names(&backups), copies, "one upgrade, one copy");
}

#[test]
fn reading_an_older_home_never_migrates_it() {
    let home = home_of_schema_one();
    for words in [["status"].as_slice(), &["sessions", "list"], &["runs", "list"]] {
        let done = home.call(words).run();
        assert!(done.code == Some(0) || done.stderr.starts_with('['), "{done:?}");
        assert!(!done.stderr.contains("INTERNAL"), "{done:?}");
    }
    assert_eq!(schema(&home.database()), 1);
    assert!(!home.root().join("backups").exists());
}

#[test]
fn a_killed_migration_goes_on_where_it_stopped() {
    let points =
        ["storage.migrate.backed_up", "storage.migrate.before_commit", "storage.migrate.after_commit"];
    for point in points {
        let home = home_of_schema_one();
        let killed = home.call(&["ask", "first"]).env("TIDEGATE_FAULT", format!("{point}=kill")).run();
        assert_eq!(killed.signal, Some(9), "{point}: {killed:?}");
        sound(&home.database());
        home.call(&["status"]).ok();
        home.ask("second");
        assert_eq!(Log::of(&home, "main").questions(), ["second"], "{point}");
        sound(&home.database());
        let backups = names(&home.root().join("backups"));
        assert!(!backups.is_empty(), "{point}");
        for name in &backups {
            // The start that goes on copies what it finds, which may be one step further.
            let number = name.strip_prefix("schema-").and_then(|rest| rest.split('-').next());
            let number: u32 = number
                .and_then(|number| number.parse().ok())
                .unwrap_or_else(|| panic!("{point}: only whole copies are left: {backups:?}"));
            assert_eq!(schema(&home.root().join("backups").join(name)), number, "{point}: {name}");
        }
    }
}

fn a_killed_first_start(backend: Backend) {
    for point in ["storage.migrate.before_commit", "storage.migrate.after_commit"] {
        for hit in 1..=2 {
            let Some(home) = Home::on(backend) else { return };
            let fault = format!("{point}=kill@{hit}");
            let killed = home.call(&["ask", "first"]).env("TIDEGATE_FAULT", &fault).run();
            assert_eq!(killed.signal, Some(9), "{fault}: {killed:?}");
            home.call(&["status"]).ok();
            assert_eq!(home.call(&["sessions", "list", "--json"]).json()["sessions"], serde_json::json!([]));
            home.ask("second");
            assert_eq!(Log::of(&home, "main").questions(), ["second"], "{fault}");
        }
    }
}

#[test]
fn a_first_start_that_was_killed_is_a_fresh_home_on_sqlite() {
    a_killed_first_start(Backend::Sqlite);
}

#[test]
fn a_first_start_that_was_killed_is_a_fresh_home_on_postgres() {
    a_killed_first_start(Backend::Postgres);
}

#[test]
fn two_first_starts_at_once_migrate_once() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let Some(home) = Home::on(backend) else { return };
        std::thread::scope(|scope| {
            for at in 0..3 {
                let home = &home;
                scope.spawn(move || home.ask_in(&format!("s{at}"), "hi"));
            }
        });
        assert_eq!(home.sessions().len(), 3);
    }
}

fn mark(database: &Path, schema: u32, reader: u32, writer: u32) {
    let connection = rusqlite::Connection::open(database).unwrap();
    let sql = format!("UPDATE meta SET schema = {schema}, min_reader = {reader}, min_writer = {writer}");
    connection.execute_batch(&sql).unwrap();
}

#[test]
fn a_home_of_a_newer_release_is_refused_and_unchanged() {
    let home = Home::new();
    home.ask("one");
    let current = schema(&home.database());
    mark(&home.database(), 99, 99, 99);
    for words in [["ask", "two"].as_slice(), &["sessions", "list"], &["runs", "list"], &["status"]] {
        let failed = home.call(words).fails("STORAGE_NEWER");
        assert!(failed.message.contains("99"), "{failed:?}");
        assert!(failed.stderr.contains("newer release"), "{failed:?}");
    }
    assert_eq!(schema(&home.database()), 99);
    mark(&home.database(), current, 1, 1);
    home.ask("two");
    assert_eq!(Log::of(&home, "main").questions(), ["one", "two"], "nothing was lost");
}

#[test]
fn a_newer_home_that_allows_it_is_read_and_written() {
    let home = Home::new();
    home.ask("one");
    mark(&home.database(), 99, 1, 99);
    assert_eq!(Log::of(&home, "main").questions(), ["one"], "reading is allowed");
    home.call(&["ask", "two"]).fails("STORAGE_NEWER");
    mark(&home.database(), 99, 1, 1);
    home.ask("two");
    assert_eq!(Log::of(&home, "main").questions(), ["one", "two"]);
    assert_eq!(schema(&home.database()), 99, "and stays what it is");
}
