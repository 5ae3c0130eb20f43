//! Questions outlive the process that put them; calls do not.

use serde_json::json;

use super::commands::runs;
use super::{id, question};
use crate::gateway::homes::with_config;
use crate::gateway::live::{Live, eventually};
use crate::home::{Backend, Home};
use crate::process::Call;
use crate::tools::workspace;

const COMMAND: &str = r#"{"command": "mktemp -p . ran.XXXXXX"}"#;

fn home(backend: Backend) -> Option<Home> {
    with_config(backend, "tools: { profile: 'coding' }")
}

fn exec(home: &Home) -> Call {
    home.call(&["tools", "invoke", "exec", "--wait", "--args", COMMAND]).inside(&workspace(home))
}

fn a_killed_gateway_keeps_the_question(backend: Backend) {
    let Some(home) = home(backend) else { return };
    let root = workspace(&home);
    let live = Live::start(&home);
    let call = exec(&home).start();
    let asked = question(&home);
    live.kill();
    let done = call.wait();
    assert_eq!(done.code, Some(1), "whoever waited is told: {done:?}");
    assert_eq!(question(&home), asked, "it is there while nobody runs");
    let live = Live::start(&home);
    assert_eq!(question(&home), asked, "and when the next gateway does");
    home.call(&["approvals", "approve", &id(&asked)]).ok();
    let shown = home.call(&["approvals", "show", &id(&asked), "--json"]).json();
    assert_eq!(shown["state"], "approved");
    live.end();
    assert_eq!(runs(&root), 0, "the call it belonged to is gone: nothing runs");
    let again = home.call(&["tools", "invoke", "exec", "--args", COMMAND]).inside(&root).run();
    assert_eq!((again.code, runs(&root)), (Some(1), 0), "another call has to ask for itself: {again:?}");
    assert_eq!(home.call(&["approvals", "list", "--json"]).json()["approvals"], json!([]));
    assert_eq!(home.call(&["audit", "verify", "--json"]).ok().code, Some(0));
}

#[test]
fn a_killed_gateway_keeps_the_question_on_sqlite() {
    a_killed_gateway_keeps_the_question(Backend::Sqlite);
}

#[test]
fn a_killed_gateway_keeps_the_question_on_postgres() {
    a_killed_gateway_keeps_the_question(Backend::Postgres);
}

#[test]
fn a_call_whose_gateway_stops_goes_on_by_itself_and_still_runs_once() {
    let home = home(Backend::Sqlite).unwrap();
    let root = workspace(&home);
    let live = Live::start(&home);
    let call = exec(&home).start();
    let before = id(&question(&home));
    live.end();
    let asked = eventually("it is asked again", || {
        let list = home.call(&["approvals", "list", "--json"]).json();
        let ids: Vec<String> = list["approvals"].as_array().unwrap().iter().map(id).collect();
        ids.into_iter().find(|id| *id != before)
    });
    home.call(&["approvals", "approve", &before]).run();
    home.call(&["approvals", "approve", &asked]).ok();
    let done = call.wait();
    assert_eq!((done.code, runs(&root)), (Some(0), 1), "{done:?}");
}
