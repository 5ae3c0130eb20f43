//! What a command started ends with it: on its timeout, when whoever waits interrupts it, and when the process that
//! runs it is killed. Nothing that ignores signals, leaves its session or forks gets away.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::brood::{Brood, TRUSTING};
use super::workspace;
use crate::gateway::live::Live;
use crate::home::Home;
use crate::process::Call;

fn trusting() -> (Home, PathBuf, Brood) {
    let home = Home::new();
    home.write_config(TRUSTING);
    let root = workspace(&home);
    let brood = Brood::new(&home, &root);
    (home, root, brood)
}

fn exec(home: &Home, root: &Path, args: &str) -> Call {
    home.call(&["tools", "invoke", "exec", "--args", args]).inside(root)
}

/// A brood of a call without a gateway, which ends by this signal.
fn ended_by(signal: Signal) {
    let (home, root, brood) = trusting();
    let call = exec(&home, &root, &brood.args("wait", &json!({}))).start();
    let supervisors = brood.grown();
    call.signal(signal);
    let done = call.wait();
    assert!(done.code != Some(0), "{done:?}");
    brood.gone(&supervisors);
}

#[test]
fn a_command_whose_time_is_over_leaves_nothing() {
    let (home, root, brood) = trusting();
    let call = exec(&home, &root, &brood.args("wait", &json!({"timeout": 2}))).start();
    brood.grown();
    let done = call.wait();
    assert_eq!(brood.alive(), [0; 0], "nothing is left when the call returns");
    assert_eq!(done.code, Some(1), "{done:?}");
    let result = done.json()["result"].clone();
    assert_eq!((&result["data"]["timedOut"], &result["data"]["exitCode"]), (&json!(true), &Value::Null));
    assert_eq!(result["error"]["code"], "execution_error");
}

#[test]
fn a_command_that_ends_by_itself_leaves_no_daemons() {
    let (home, root, brood) = trusting();
    let done = exec(&home, &root, &brood.args("leave", &json!({}))).run();
    assert_eq!(brood.alive(), [0; 0], "nothing is left when the call returns");
    assert_eq!((done.code, &done.json()["result"]["data"]["exitCode"]), (Some(0), &json!(0)), "{done:?}");
}

#[test]
fn a_command_is_not_put_into_a_background_that_ends_with_the_call() {
    let (home, root, brood) = trusting();
    let done = exec(&home, &root, &brood.args("wait", &json!({"background": true}))).run();
    assert_eq!(brood.alive(), [0; 0], "nothing was started");
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("nobody could look after it here"), "{done:?}");
}

#[test]
fn an_interrupted_call_leaves_nothing() {
    ended_by(Signal::INT);
}

#[test]
fn a_killed_call_leaves_nothing() {
    ended_by(Signal::KILL);
}

#[test]
fn a_call_that_leaves_its_gateway_leaves_nothing_there() {
    for signal in [Signal::INT, Signal::KILL] {
        let (home, root, brood) = trusting();
        let live = Live::start(&home);
        let call = exec(&home, &root, &brood.args("wait", &json!({}))).start();
        let supervisors = brood.grown();
        call.signal(signal);
        call.wait();
        brood.gone(&supervisors);
        assert_eq!(home.ask("the gateway goes on")["success"], true);
        let audit = home.call(&["audit", "list", "--json"]).ok().stdout;
        assert!(audit.contains("tool.failed"), "what became of the call is on record: {audit}");
        live.end();
    }
}

#[test]
fn a_killed_gateway_takes_its_commands_with_it() {
    let (home, root, brood) = trusting();
    let live = Live::start(&home);
    let call = exec(&home, &root, &brood.args("wait", &json!({}))).start();
    let supervisors = brood.grown();
    live.kill();
    let done = call.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(!done.stdout.contains("\"ok\": true"), "{done:?}");
    brood.gone(&supervisors);
}

#[test]
fn commands_in_the_background_end_with_their_gateway_however_it_ends() {
    for killed in [true, false] {
        let (home, root, brood) = trusting();
        let live = Live::start(&home);
        let begun = exec(&home, &root, &brood.args("wait", &json!({"background": true}))).json();
        assert_eq!(begun["result"]["data"]["status"], "running", "{begun}");
        let supervisors = brood.grown();
        if killed {
            live.kill();
        } else {
            live.end();
        }
        brood.gone(&supervisors);
    }
}

/// What is told of a command that printed more than anybody wants to read.
fn flood(then: &str, timeout: u32) -> Value {
    let (home, root, brood) = trusting();
    let done = exec(&home, &root, &brood.args(then, &json!({"timeout": timeout}))).run();
    assert_eq!(brood.alive(), [0; 0], "nothing is left when the call returns");
    assert!(done.stdout.len() < 400_000, "{}", done.stdout.len());
    let result = done.json()["result"].clone();
    let data = &result["data"];
    assert_eq!((&data["truncated"], &result["meta"]["truncated"]), (&json!(true), &json!(true)), "{then}");
    let printed = data["stdout"].as_str().unwrap();
    assert!((50_000..=110_000).contains(&printed.len()), "{}", printed.len());
    result
}

#[test]
fn megabytes_come_out_as_a_hundred_kilobytes() {
    let result = flood("some", 60);
    assert_eq!((&result["ok"], &result["data"]["exitCode"]), (&json!(true), &json!(0)));
}

#[test]
fn a_command_that_prints_without_end_is_bounded_in_time_and_in_what_is_kept() {
    let begin = Instant::now();
    flood("much", 2);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
