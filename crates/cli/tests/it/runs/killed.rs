//! A process that is killed in the middle of a run with tools: what is known about the run afterwards.

use rustix::process::Signal;
use serde_json::json;
use tidegate_testkit::model_server::Turn;

use crate::asking_tools::Desk;
use crate::gateway::live::eventually;
use crate::runs::replay::is_in_order_of_time;

#[test]
fn a_killed_run_is_ended_its_first_steps_are_kept_and_its_session_is_free() {
    let desk = Desk::trusting();
    desk.vendor.push(Turn::call("c1", "read", json!({"path": "six.txt"})));
    desk.vendor.push(Turn::call("c2", "exec", json!({"command": "touch began.txt; sleep 60"})));
    let running = desk.call(&["work"]).start();
    eventually("the command begins", || desk.root.join("began.txt").exists().then_some(()));
    running.signal(Signal::KILL);
    running.wait();
    // Whoever comes next settles what the dead process left; the session is not locked.
    desk.vendor.push(Turn::say("here I am"));
    assert_eq!(desk.ask(&["are you there?"])["result"], "here I am");
    let run = &desk.home.runs()[0];
    assert_eq!(run["state"], "interrupted", "{run}");
    let shown = desk.home.call(&["runs", "show", run["id"].as_str().unwrap(), "--json"]).json();
    let states: Vec<_> = shown["toolRuns"].as_array().unwrap().iter().map(|tool| &tool["state"]).collect();
    assert_eq!(states, ["succeeded", "interrupted"], "{shown}");
    let story = desk.home.call(&["runs", "replay", run["id"].as_str().unwrap()]).ok().stdout;
    assert!(story.contains("sixsix"), "what was done is kept: {story}");
    assert!(story.contains("exec was begun, and what came of it is not known"), "{story}");
    let story = desk.home.call(&["runs", "replay", run["id"].as_str().unwrap(), "--json"]).json();
    is_in_order_of_time(&story);
    let told = story["steps"].as_array().unwrap().iter().filter(|step| step["callId"] == "c2");
    let told: Vec<_> = told.map(|step| step["step"].clone()).collect();
    assert_eq!((&told[0], told.last()), (&json!("call"), Some(&json!("begun"))), "{story:#}");
}
