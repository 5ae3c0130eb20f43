//! The story of a run with tools: in order, with decisions and costs, and without secrets.

use serde_json::{Value, json};
use tidegate_testkit::model_server::{Step, Turn};

use crate::asking_tools::Desk;
use crate::home::Backend;

fn replay(desk: &Desk, answer: &Value) -> Value {
    desk.home.call(&["runs", "replay", answer["requestId"].as_str().unwrap(), "--json"]).json()
}

fn kinds(story: &Value) -> Vec<&str> {
    story["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect()
}

/// No step is told before one that came earlier.
pub(crate) fn is_in_order_of_time(story: &Value) {
    let times: Vec<_> =
        story["steps"].as_array().unwrap().iter().map(|step| step["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{story:#}");
}

fn step<'s>(story: &'s Value, kind: &str) -> &'s Value {
    let found = story["steps"].as_array().unwrap().iter().find(|step| step["step"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {story}"))
}

fn the_steps(backend: Backend) {
    let Some(desk) = Desk::trusting_on(backend) else { return };
    let call = |id: &str, name: &str, arguments| Step::Call { id: id.into(), name: name.into(), arguments };
    let look = Turn::say("Let me look.").then(call("c1", "read", json!({"path": "six.txt"})));
    let change = look.then(call("c2", "write", json!({"path": "new.txt", "content": "x"})));
    desk.vendor.push(change);
    desk.vendor.push(Turn::call("c3", "web_fetch", json!({"url": "http://example.com"})));
    desk.vendor.push(Turn::say("done"));
    let story = replay(&desk, &desk.ask(&["copy it"]));
    is_in_order_of_time(&story);
    let steps = story["steps"].as_array().unwrap();
    let of_call = |id: &str| -> Vec<&Value> { steps.iter().filter(|step| step["callId"] == id).collect() };
    for id in ["c1", "c2", "c3"] {
        let told: Vec<_> = of_call(id).iter().map(|step| step["step"].clone()).collect();
        assert_eq!(told, ["call", "decision", "result"], "{id}: {story:#}");
    }
    let others: Vec<_> = steps
        .iter()
        .filter(|step| step["callId"].is_null())
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    let expected =
        ["accepted", "started", "user", "model", "assistant", "model", "model", "assistant", "completed"];
    assert_eq!(others, expected, "{story:#}");
    let numbers: Vec<u64> = steps.iter().map(|step| step["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=steps.len() as u64).collect::<Vec<_>>());
    let model = step(&story, "model");
    assert_eq!(
        (&model["model"], &model["profileId"], &model["outcome"]),
        (&json!("anthropic/first"), &json!("anthropic/config"), &json!("ok"))
    );
    assert!(model["costUsd"].as_f64().unwrap() > 0.0 && model["usage"]["input"] == 12, "{model}");
    let decision = step(&story, "decision");
    for field in ["stage", "rule", "reason"] {
        assert!(decision[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {decision}");
    }
    assert_eq!((&decision["callId"], &decision["verdict"]), (&json!("c1"), &json!("allowed")));
    let denied = of_call("c3")[1];
    assert_eq!((&denied["tool"], &denied["verdict"]), (&json!("web_fetch"), &json!("denied")), "{denied}");
    assert_eq!(of_call("c3")[2]["ok"], false);
}

#[test]
fn every_step_is_told_in_the_order_in_which_one_led_to_the_other() {
    the_steps(Backend::Sqlite);
}

#[test]
fn every_step_is_told_in_the_order_in_which_one_led_to_the_other_on_postgres() {
    the_steps(Backend::Postgres);
}

#[test]
fn what_looks_like_a_key_is_not_told_again() {
    let desk = Desk::trusting();
    let key = format!("{}{}", "ghp_", "Zm9vYmFyYmF6cXV4MTIz");
    std::fs::write(desk.root.join("key.txt"), &key).unwrap();
    desk.vendor.push(Turn::call("c1", "read", json!({"path": "key.txt", "note": key})));
    desk.vendor.push(Turn::call("c2", "exec", json!({"command": format!("echo {key}")})));
    desk.vendor.push(Turn::say(&format!("it is {key}")));
    let answer = desk.ask(&[&format!("remember {key}")]);
    let request = answer["requestId"].as_str().unwrap();
    for words in [["runs", "replay", request].as_slice(), &["runs", "replay", request, "--json"]] {
        let told = desk.home.call(words).ok().stdout;
        assert!(!told.contains(&key) && told.contains("[redacted]"), "{told}");
    }
}

#[test]
fn a_failed_call_of_the_model_is_part_of_the_story() {
    let desk = Desk::with(&Value::Null);
    desk.vendor.push(Turn::refuse(tidegate_testkit::model_server::Kind::BadRequest));
    desk.call(&["hi"]).fails("MODEL_UNAVAILABLE");
    let run = desk.home.runs()[0]["id"].as_str().unwrap().to_owned();
    let story = desk.home.call(&["runs", "replay", &run, "--json"]).json();
    assert_eq!(kinds(&story), ["accepted", "started", "model", "failed"], "{story:#}");
    assert_ne!(step(&story, "model")["outcome"], "ok");
    assert_eq!(step(&story, "failed")["error"]["code"], "MODEL_UNAVAILABLE");
}
