//! A damaged database: named, refused, left as it was.

use std::fs;
use std::path::Path;

use crate::home::{Home, tree};
use crate::log::Log;

/// A home with enough in it that a page in the middle matters, all of it in the one file.
fn filled() -> Home {
    let home = Home::new();
    for at in 0..6 {
        home.call(&["ask", "--stdin", &format!("q{at}")]).stdin("filler ".repeat(2000)).ok();
    }
    fold(&home.database());
    home
}

/// Copies the log of newest commits into the database file, as the last connection to close does.
fn fold(database: &Path) {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.close().unwrap();
}

/// Every file of the home that holds data, byte for byte.
fn contents(home: &Home) -> Vec<(String, Vec<u8>)> {
    let data = |name: &String| name.starts_with("agents") || name == "tidegate.db";
    let names = tree(home.root()).into_iter().filter(|(_, _, folder)| !folder);
    let names = names.map(|(path, _, _)| path.display().to_string()).filter(data);
    names.map(|name| (name.clone(), fs::read(home.root().join(&name)).unwrap())).collect()
}

/// Asking is refused with a word about the file, and nothing changes.
fn refused(home: &Home, what: &str) {
    let before = contents(home);
    for _ in 0..2 {
        let failed = home.call(&["ask", "hi"]).fails("STORAGE_DAMAGED");
        assert!(failed.message.contains(home.database().to_str().unwrap()), "{what}: {failed:?}");
        assert!(failed.stderr.contains("backups/"), "{what}: what to do about it: {failed:?}");
    }
    assert!(contents(home) == before, "{what}: the damaged file was changed");
}

#[test]
fn a_database_whose_header_was_overwritten_is_refused_and_kept() {
    let home = filled();
    let mut bytes = fs::read(home.database()).unwrap();
    bytes[..100].fill(0x55);
    fs::write(home.database(), &bytes).unwrap();
    refused(&home, "header");
    for words in [["status"].as_slice(), &["sessions", "list"], &["runs", "list"]] {
        let failed = home.call(words).fails("STORAGE_DAMAGED");
        assert!(failed.message.contains("tidegate.db"), "{failed:?}");
    }
}

#[test]
fn a_database_replaced_by_text_is_refused_and_kept() {
    let home = filled();
    fs::write(home.database(), "these are my notes, not a database\n".repeat(1000)).unwrap();
    refused(&home, "text");
}

#[test]
fn a_truncated_database_is_refused_and_kept() {
    let home = filled();
    let bytes = fs::read(home.database()).unwrap();
    for keep in [4096, bytes.len() / 2, bytes.len() - 4096] {
        fs::write(home.database(), &bytes[..keep]).unwrap();
        refused(&home, &format!("cut to {keep} of {}", bytes.len()));
    }
    fs::write(home.database(), &bytes).unwrap();
    home.ask("whole again");
    assert_eq!(Log::of(&home, "main").turns(), 7);
}

#[test]
fn garbage_in_the_middle_is_never_answered_from() {
    let home = filled();
    let bytes = fs::read(home.database()).unwrap();
    let pages = bytes.len() / 4096;
    let mut noticed = 0;
    for page in 1..pages {
        let mut spoilt = bytes.clone();
        spoilt[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(home.database(), &spoilt).unwrap();
        let _ = fs::remove_file(home.root().join("tidegate.db-wal"));
        let _ = fs::remove_file(home.root().join("tidegate.db-shm"));
        for words in [["sessions", "show", "main", "--json"].as_slice(), &["runs", "list", "--json"]] {
            let done = home.call(words).run();
            if done.code == Some(0) {
                assert!(
                    !done.stdout.contains('\u{fffd}') && !done.stdout.contains("¥¥"),
                    "page {page}: {done:?}"
                );
                continue;
            }
            noticed += 1;
            assert!(done.stderr.starts_with("[STORAGE_DAMAGED] "), "page {page}: {done:?}");
        }
        assert!(fs::read(home.database()).unwrap() == spoilt, "page {page}: reading changed the file");
    }
    assert!(noticed > 0, "no page of {pages} mattered");
}

#[test]
fn the_words_are_still_in_the_transcripts_when_the_database_is_gone() {
    let home = filled();
    let id = Log::of(&home, "main").session_id;
    fs::write(home.database(), b"broken").unwrap();
    home.call(&["ask", "hi"]).fails("STORAGE_DAMAGED");
    let text = fs::read_to_string(home.transcript(&id)).unwrap();
    assert_eq!(text.lines().count(), 13);
}

#[test]
fn after_moving_the_damaged_file_away_a_new_beginning_works() {
    let home = filled();
    fs::write(home.database(), b"broken").unwrap();
    home.call(&["ask", "hi"]).fails("STORAGE_DAMAGED");
    for name in ["tidegate.db", "tidegate.db-wal", "tidegate.db-shm"] {
        let _ = fs::rename(home.root().join(name), home.around().join("user").join(name));
    }
    home.ask("afresh");
    assert_eq!(Log::of(&home, "main").questions(), ["afresh"]);
}

#[test]
fn a_torn_tail_of_the_newest_commits_loses_nothing_that_was_before_it() {
    let home = Home::new();
    home.ask("one");
    home.ask("two");
    // Killed behind its commit: the newest commits are in the log beside the file.
    home.call(&["ask", "three"]).env("TIDEGATE_FAULT", "storage.finish.after_commit=kill").run();
    let wal = home.root().join("tidegate.db-wal");
    let bytes = fs::read(&wal).unwrap();
    let database = fs::read(home.database()).unwrap();
    assert!(bytes.len() > 4096, "{}", bytes.len());
    let cuts = (0..24).map(|part| bytes[..bytes.len() * part / 24].to_vec());
    let flips = (0..24).map(|part| {
        let mut flipped = bytes.clone();
        let at = bytes.len() * part / 24;
        flipped[at] ^= 0x55;
        flipped
    });
    let longer = [b"garbage".to_vec(), vec![0; 5000]].map(|extra| [bytes.as_slice(), &extra].concat());
    for torn in cuts.chain(flips).chain(longer) {
        fs::write(home.database(), &database).unwrap();
        fs::write(&wal, torn).unwrap();
        let _ = fs::remove_file(home.root().join("tidegate.db-shm"));
        let log = Log::without_transcript(&home, "main");
        assert_eq!(log.questions()[..2], ["one", "two"]);
    }
    home.ask("four");
    let log = Log::of(&home, "main");
    let questions = log.questions();
    assert_eq!((questions.first(), questions.last()), (Some(&"one"), Some(&"four")));
}

#[test]
fn a_command_that_ended_left_everything_in_the_database_file() {
    let home = Home::new();
    home.ask("one");
    let copy = home.around().join("user/copy.db");
    fs::copy(home.database(), &copy).unwrap();
    let connection = rusqlite::Connection::open(&copy).unwrap();
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'entries'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1, "the last connection to close folds the newest commits into the file");
}
