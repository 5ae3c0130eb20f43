//! Commands that ask, with a gateway that runs them and without one: each promise holds in both.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{id, question};
use crate::gateway::live::{Live, eventually};
use crate::home::Home;
use crate::process::{Call, Done};
use crate::tools::workspace;

/// Every run of it leaves one file more.
const COMMAND: &str = "mktemp -p . ran.XXXXXX";

/// A home whose commands ask, its workspace, and a gateway or none.
struct Stage {
    home: Home,
    root: PathBuf,
    live: Option<Live>,
}

impl Stage {
    fn both(exec: &str, more: &str) -> [Self; 2] {
        [false, true].map(|with_gateway| {
            let home = Home::new();
            home.write_config(&format!("{{ tools: {{ profile: 'coding', exec: {{ {exec} }} }}, {more} }}"));
            let root = workspace(&home);
            let live = with_gateway.then(|| Live::start(&home));
            Self { home, root, live }
        })
    }

    fn exec(&self, more: &[&str]) -> Call {
        let args = json!({ "command": COMMAND }).to_string();
        let words = [["tools", "invoke", "exec", "--args", &args].as_slice(), more].concat();
        self.home.call(&words).inside(&self.root)
    }

    fn runs(&self) -> usize {
        runs(&self.root)
    }

    fn approvals(&self, words: &[&str]) -> Call {
        self.home.call(&[["approvals"].as_slice(), words].concat())
    }

    fn end(self) {
        self.live.map(Live::end);
    }
}

pub(super) fn runs(root: &Path) -> usize {
    let names = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("ran.")).count()
}

fn error(done: &Done) -> Value {
    assert_eq!(done.code, Some(1), "{done:?}");
    done.json()["result"]["error"].clone()
}

#[test]
fn an_approved_command_runs_exactly_once_as_it_was_shown() {
    for stage in Stage::both("", "") {
        let call = stage.exec(&["--wait"]).start();
        let asked = question(&stage.home);
        assert_eq!(asked["commands"], json!(["/usr/bin/mktemp -p . ran.XXXXXX"]));
        assert_eq!((&asked["shell"], &asked["cwd"]), (&json!(false), &json!(stage.root)));
        let shown = stage.approvals(&["show", &id(&asked)]).ok().stdout;
        assert!(shown.contains("/usr/bin/mktemp -p . ran.XXXXXX"), "{shown}");
        assert_eq!(stage.runs(), 0, "nothing before the answer");
        stage.approvals(&["approve", &id(&asked)]).ok();
        let done = call.wait();
        assert_eq!((done.code, stage.runs()), (Some(0), 1), "{done:?}");
        assert_eq!(done.json()["result"]["data"]["exitCode"], 0);
        stage.approvals(&["approve", &id(&asked)]).fails("INVALID_VALUE");
        error(&stage.exec(&[]).run());
        assert_eq!(stage.runs(), 1, "an approval is good for one call");
        stage.end();
    }
}

#[test]
fn of_many_who_answer_at_once_one_counts_and_the_command_runs_at_most_once() {
    for stage in Stage::both("", "") {
        let call = stage.exec(&["--wait"]).start();
        let asked = id(&question(&stage.home));
        let answers: Vec<_> = (0..6)
            .map(|at| stage.approvals(&[if at % 2 == 0 { "approve" } else { "deny" }, &asked]).start())
            .collect();
        let won: Vec<bool> = answers.into_iter().map(|answer| answer.wait().code == Some(0)).collect();
        let done = call.wait();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
        let approved = won.iter().position(|won| *won).unwrap() % 2 == 0;
        assert_eq!((done.code == Some(0), stage.runs()), (approved, usize::from(approved)), "{done:?}");
        stage.end();
    }
}

#[test]
fn a_denial_is_told_with_its_reason_and_nothing_runs() {
    for stage in Stage::both("", "") {
        let call = stage.exec(&["--wait"]).start();
        stage.approvals(&["deny", &id(&question(&stage.home)), "--reason", "use the other folder"]).ok();
        let error = error(&call.wait());
        assert!(error["message"].as_str().unwrap().contains("use the other folder"), "{error}");
        assert_eq!(error["code"], "execution_error");
        assert_eq!(error["details"]["policy"]["stage"], "exec", "{error}");
        assert_eq!(stage.runs(), 0);
        stage.end();
    }
}

#[test]
fn a_question_nobody_answers_expires_and_cannot_be_answered_any_more() {
    for stage in Stage::both("", "approvals: { expirySeconds: 1 }") {
        let begin = Instant::now();
        let call = stage.exec(&["--wait"]).start();
        let asked = id(&question(&stage.home));
        let error = error(&call.wait());
        assert!(begin.elapsed() > Duration::from_millis(900), "{:?}", begin.elapsed());
        assert!(error["message"].as_str().unwrap().contains("nobody answered in time"), "{error}");
        let late = stage.approvals(&["approve", &asked]).fails("INVALID_VALUE");
        assert!(late.message.contains("expired"), "{late:?}");
        let shown = stage.approvals(&["show", &asked, "--json"]).json();
        assert_eq!((&shown["state"], stage.runs()), (&json!("expired"), 0));
        stage.end();
    }
}

#[test]
fn without_a_terminal_and_without_waiting_it_is_denied_at_once() {
    for stage in Stage::both("", "approvals: { expirySeconds: 3600 }") {
        let begin = Instant::now();
        let error = error(&stage.exec(&[]).run());
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(error["message"].as_str().unwrap().contains("nobody is there to approve it"), "{error}");
        assert_eq!(stage.approvals(&["list", "--all", "--json"]).json()["approvals"], json!([]));
        assert_eq!(stage.runs(), 0);
        stage.end();
    }
}

#[test]
fn what_was_allowed_for_good_runs_unasked_until_the_rule_is_removed() {
    for stage in Stage::both("host: 'gateway'", "") {
        let call = stage.exec(&["--wait"]).start();
        let asked = question(&stage.home);
        stage.approvals(&["approve", &id(&asked), "--always"]).ok();
        assert_eq!((call.wait().code, stage.runs()), (Some(0), 1));
        let rules = stage.approvals(&["allowlist", "--json"]).json()["rules"].clone();
        assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
        assert_eq!(
            (&rules[0]["rule"], &rules[0]["tool"]),
            (&asked["rule"], &json!("exec")),
            "what was shown is saved"
        );
        stage.exec(&[]).ok();
        assert_eq!(stage.runs(), 2, "without a question");
        let used = stage.approvals(&["allowlist", "--json"]).json()["rules"][0]["lastUsedAt"].clone();
        assert!(used.is_i64(), "{used}");
        let other = json!({ "command": "mktemp -p . ran.XXXXXX ran.YYYYYY" }).to_string();
        let words = ["tools", "invoke", "exec", "--args", &other];
        error(&stage.home.call(&words).inside(&stage.root).run());
        stage.approvals(&["allowlist", "remove", rules[0]["id"].as_str().unwrap()]).ok();
        error(&stage.exec(&[]).run());
        assert_eq!(stage.runs(), 2, "it asks again, and nobody is there");
        assert_eq!(stage.approvals(&["allowlist", "--json"]).json()["rules"], json!([]));
        stage.end();
    }
}

#[test]
fn where_nothing_confines_commands_nothing_can_be_allowed_for_good() {
    let bare = "agents: { defaults: { sandbox: { profile: 'none' } } }";
    for stage in Stage::both("", bare) {
        let call = stage.exec(&["--wait"]).start();
        let asked = question(&stage.home);
        assert_eq!(asked["rule"], Value::Null, "what cannot be saved is not offered: {asked}");
        stage.approvals(&["approve", &id(&asked), "--always"]).fails("BAD_REQUEST");
        stage.approvals(&["approve", &id(&asked)]).ok();
        assert_eq!(call.wait().code, Some(0));
        error(&stage.exec(&[]).run());
        assert_eq!(stage.runs(), 1);
        stage.end();
    }
}

#[test]
fn whoever_may_not_approve_their_own_calls_may_still_deny_them() {
    for stage in Stage::both("", "approvals: { selfApproval: 'deny' }") {
        let call = stage.exec(&["--wait"]).start();
        let asked = id(&question(&stage.home));
        stage.approvals(&["approve", &asked]).fails("FORBIDDEN");
        stage.approvals(&["deny", &asked]).ok();
        error(&call.wait());
        assert_eq!(stage.runs(), 0);
        stage.end();
    }
}

#[test]
fn a_caller_who_leaves_the_gateway_takes_the_question_along() {
    let [_, stage] = Stage::both("", "");
    let call = stage.exec(&["--wait"]).start();
    let asked = id(&question(&stage.home));
    call.signal(Signal::INT);
    call.wait();
    eventually("the question is withdrawn", || {
        let shown = stage.approvals(&["show", &asked, "--json"]).json();
        (shown["state"] == "cancelled").then_some(())
    });
    stage.approvals(&["approve", &asked]).fails("INVALID_VALUE");
    assert_eq!(stage.runs(), 0);
    stage.end();
}
