//! `status` beside a gateway in which runs wait for a place.

use serde_json::Value;

use super::homes::with_config;
use super::live::{Live, eventually};
use crate::home::Backend;

#[test]
fn a_lane_in_which_somebody_waits_is_a_line_of_the_status() {
    let home = with_config(Backend::Sqlite, "lanes: { main: 1 }").unwrap();
    let call = home.call(&["up", "--json", "--port", "0"]);
    let live = Live::with(call.env("TIDEGATE_OFFLINE_DELAY_MS", "60000"), home.root());
    let words = home.call(&["status"]).ok().stdout;
    assert!(!words.contains("lane main"), "nobody waits: {words}");
    let words = home.call(&["status", "--verbose"]).ok().stdout;
    assert!(words.contains("lane main") && words.contains("0 of 1 places taken, 0 waiting"), "{words}");
    assert!(words.contains("lane nested") && words.contains("0 of 2 places taken"), "{words}");
    for session in ["first", "second"] {
        live.post(session, "hi", session).unwrap();
    }
    let lanes = eventually("one waits", || {
        let told = home.call(&["status", "--json"]).json();
        let lanes = told["lanes"].as_array().cloned()?;
        lanes.iter().any(|lane| lane["lane"] == "main" && lane["waiting"] == 1).then_some(lanes)
    });
    let names: Vec<&Value> = lanes.iter().map(|lane| &lane["lane"]).collect();
    assert_eq!(names, ["main", "cron", "subagent", "nested"]);
    let words = home.call(&["status"]).ok().stdout;
    assert!(words.contains("1 of 1 places taken, 1 waiting, the first for "), "{words}");
    assert!(!words.contains("lane nested"), "{words}");
    live.kill();
    assert_eq!(home.call(&["status", "--json"]).json()["lanes"], Value::Null);
}
