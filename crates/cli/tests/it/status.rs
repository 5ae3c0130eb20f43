//! `status`: what there is, without touching it.

use serde_json::{Value, json};

use crate::home::{Home, tree};

#[test]
fn a_fresh_home_is_described_and_not_made() {
    let home = Home::new();
    let told = home.call(&["status", "--json"]).json();
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "home": home.root(),
        "config": { "path": home.root().join("config.json5"), "origin": "defaults", "hash": told["config"]["hash"] },
        "backend": "sqlite",
        "storage": null,
        "holder": null,
        "lanes": null,
    });
    assert_eq!(told, expected);
    let words = home.call(&["status"]).ok().stdout;
    assert!(words.contains("nothing yet; begin with: tidegate ask hello"), "{words}");
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn it_counts_what_there_is() {
    let home = Home::new();
    home.ask("one");
    home.ask_in("other", "two");
    home.call(&["ask", "--timeout", "0.2", "three"]).env("TIDEGATE_FAULT", "models.offline.start=hang").run();
    let told = home.call(&["status", "--json"]).json();
    let storage = &told["storage"];
    assert_eq!(storage["sessions"], 2);
    assert_eq!(storage["runs"], json!({ "completed": 2, "failed": 1 }));
    let words = home.call(&["status"]).ok().stdout;
    assert!(words.contains("2 completed, 1 failed"), "{words}");
}

#[test]
fn the_size_it_tells_is_what_the_data_takes() {
    let home = Home::new();
    home.call(&["ask", "--stdin"]).stdin("x".repeat(500_000)).ok();
    let told = home.call(&["status", "--json"]).json();
    let bytes = told["storage"]["bytes"].as_u64().unwrap();
    assert!(bytes > 1_000_000, "question and answer are a megabyte, and status says {bytes} bytes");
}

#[test]
fn looking_changes_no_file() {
    let home = Home::new();
    home.ask("one");
    let look = || {
        for words in
            [["status"].as_slice(), &["sessions", "list"], &["runs", "list"], &["sessions", "show", "main"]]
        {
            home.call(words).ok();
        }
        tree(home.root())
    };
    let before = look();
    let database = std::fs::read(home.database()).unwrap();
    assert_eq!(look(), before);
    assert_eq!(std::fs::read(home.database()).unwrap(), database);
}

#[test]
fn a_home_that_exists_and_is_empty_is_a_fresh_one() {
    let home = Home::new();
    std::fs::create_dir(home.root()).unwrap();
    assert_eq!(home.call(&["status", "--json"]).json()["storage"], Value::Null);
    std::fs::write(home.database(), b"").unwrap();
    assert_eq!(home.call(&["status", "--json"]).json()["storage"], Value::Null, "an empty file is no data");
    home.ask("works");
}
