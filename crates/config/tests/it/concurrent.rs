//! Several at once: no edit is lost and nobody reads half a file.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tidegate_config::{Change, ConfigFile};

use crate::home::Home;

#[test]
fn edits_from_eight_threads_all_land() {
    let home = Home::with("// shared\n{\n}\n");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let home = &home;
            // Each thread has its own handle, as each process would.
            let file = ConfigFile::new(home.file.path().to_owned(), home.path("revisions"));
            scope.spawn(move || {
                for round in 0..6 {
                    let path = format!("channels.telegram.key{thread}_{round}").parse().unwrap();
                    file.edit(&Change::Set { path, value: json!(round) }, None, &home.env, 0).unwrap();
                }
            });
        }
    });
    let settings = home.load().unwrap().config.channels.telegram.unwrap().0;
    assert_eq!(settings.len(), 48);
    assert!(home.text().starts_with("// shared\n"));
    let numbers: Vec<_> = home.file.revisions().unwrap().iter().map(|revision| revision.number).collect();
    assert_eq!(numbers, (1..=49).collect::<Vec<_>>());
}

#[test]
fn of_two_edits_on_the_same_base_hash_one_wins() {
    let home = Home::with("{ gateway: { port: 1 } }");
    let base = home.load().unwrap().hash;
    let won: usize = std::thread::scope(|scope| {
        let edits: Vec<_> = (0..4)
            .map(|index| {
                let (home, base) = (&home, &base);
                scope.spawn(move || {
                    let change =
                        Change::Set { path: "gateway.port".parse().unwrap(), value: json!(100 + index) };
                    home.file.edit(&change, Some(base), &home.env, 0).is_ok()
                })
            })
            .collect();
        edits.into_iter().map(|edit| usize::from(edit.join().unwrap())).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_reader_always_finds_a_whole_file() {
    let home = Home::with("{}");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..40 {
                let filler = "x".repeat(round * 500);
                home.set("channels.signal", json!({"filler": filler, "end": true})).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            home.load().unwrap();
        }
    });
}
