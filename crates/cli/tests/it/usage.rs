//! `usage`: what was used and what it cost, as far as anybody knows.

use serde_json::json;

use crate::home::Home;
use crate::vendor::{Reply, Vendor};

#[test]
fn before_anything_was_asked_it_says_how_to_begin() {
    let home = Home::new();
    let empty = home.call(&["usage"]).ok().stdout;
    assert!(empty.contains("30 day(s)") && empty.contains("tidegate ask hello"), "{empty}");
    let told = home.call(&["usage", "--json", "--days", "7"]).json();
    assert_eq!((&told["rows"], &told["days"], &told["total"]["calls"]), (&json!([]), &json!(7), &json!(0)));
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn wrong_values_are_refused_with_those_that_are_right() {
    let home = Home::new();
    for (words, right) in [
        (["usage", "--by", "week"].as_slice(), "session"),
        (&["usage", "--days", "0"], "400"),
        (&["usage", "--days", "x"], "400"),
    ] {
        let failed = home.call(words).fails("INVALID_VALUE");
        assert!(failed.message.contains(right), "{failed:?}");
    }
    home.ask("hello");
    home.call(&["usage", "--session", "nobody"]).fails("NOT_FOUND");
}

#[test]
fn questions_are_counted_by_day_model_session_and_agent() {
    let home = Home::new();
    home.ask("hello");
    home.ask_in("work", "a longer question than the other one");
    for (by, groups) in [("day", 1), ("model", 1), ("session", 2), ("agent", 1)] {
        let told = home.call(&["usage", "--by", by, "--json"]).json();
        assert_eq!(told["rows"].as_array().unwrap().len(), groups, "{told}");
        assert_eq!(told["total"]["calls"], 2, "{told}");
        assert!(told["total"]["usage"]["input"].as_u64().unwrap() > 0, "{told}");
    }
    let one = home.call(&["usage", "--session", "work", "--json"]).json();
    assert_eq!(one["total"]["calls"], 1, "{one}");
    let shown = home.call(&["usage", "--by", "session"]).ok();
    assert!(shown.stdout.contains("work") && shown.stdout.contains("main"), "{shown:?}");
    assert!(
        shown.stderr.contains("counted from the characters"),
        "the offline model counts nothing: {shown:?}"
    );
}

#[test]
fn a_table_has_bars_a_total_and_no_colour_in_a_pipe() {
    let vendor = Vendor::start(Reply::ok());
    let home = Home::new();
    home.write_config(&vendor.config());
    home.call(&["auth", "login", "mock", "--stdin"]).stdin("some-key").ok();
    home.call(&["models", "test", "mock/m1"]).ok();
    home.call(&["models", "test", "mock/other"]).ok();
    let done = home.call(&["usage", "--by", "model"]).env("COLUMNS", "120").ok();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].starts_with("model") && lines[0].contains("cache read"), "{done:?}");
    assert!(lines[1].starts_with("mock/m1") && lines[1].ends_with('█'), "the dearest first: {done:?}");
    assert!(lines.last().unwrap().starts_with("total  ") && lines.last().unwrap().contains('2'), "{done:?}");
    assert!(!done.stdout.contains('\u{1b}'), "{done:?}");
    assert!(done.stderr.contains("mock/other"), "nobody knows its price: {done:?}");
    let narrow = home.call(&["usage", "--by", "model"]).env("COLUMNS", "40").ok().stdout;
    assert!(narrow.matches('█').count() < done.stdout.matches('█').count(), "{narrow}");
}
