//! Calls, questions and approvals for tests.

use serde_json::json;
use tidegate_protocol::{Id, Risk, Scope, ToolCall, ToolSource};

use super::{AllowMatch, Approval, CommandMatch, Question};
use crate::call::{Preparation, Prepared, Requester, Subject};
use crate::exec::Plan;
use crate::tools::{Decision, StageKind, Verdict};

pub(crate) fn command(program: &str, args: &[&str]) -> CommandMatch {
    let args = args.iter().map(|word| (*word).to_owned()).collect();
    CommandMatch { program: program.to_owned(), args, open: false }
}

/// A plan as it is stored: a pipeline of these commands, all of them found in `/usr/bin`.
pub(crate) fn plan(commands: &[&[&str]]) -> Plan {
    let launches: Vec<_> = commands.iter().map(|argv| launch(argv)).collect();
    read_plan(&json!([{ "join": "then", "pipeline": launches }]), &json!(null))
}

pub(crate) fn read_plan(steps: &serde_json::Value, opaque: &serde_json::Value) -> Plan {
    let plan = json!({ "steps": steps, "cwd": "/home/a/work", "addedEnv": { "LANG": "C" }, "env": { "LANG": "C" }, "opaque": opaque });
    serde_json::from_value(plan).unwrap()
}

pub(crate) fn launch(argv: &[&str]) -> serde_json::Value {
    let identity = json!({ "device": 1, "inode": 2, "size": 3, "modified": 4 });
    let path = format!("/usr/bin/{}", argv[0]);
    json!({ "program": { "path": path, "identity": identity, "trusted": true }, "argv": argv })
}

pub(crate) fn exec_call(commands: &[&[&str]]) -> Prepared {
    prepared(Preparation { plan: Some(plan(commands)), ..Preparation::default() })
}

pub(crate) fn shell_call(script: &str) -> Prepared {
    let steps = json!([{ "join": "then", "pipeline": [launch(&["bash", "-c", script])] }]);
    let plan = read_plan(&steps, &json!({ "reason": "it needs a shell", "script": script }));
    prepared(Preparation { plan: Some(plan), ..Preparation::default() })
}

pub(crate) fn reading_call(subjects: Vec<Subject>) -> Prepared {
    prepared(Preparation { subjects, ..Preparation::default() })
}

fn prepared(preparation: Preparation) -> Prepared {
    let scope = Scope {
        tenant: "local".parse().unwrap(),
        workspace: "default".parse().unwrap(),
        agent: "main".parse().unwrap(),
    };
    let requester = Requester {
        scope,
        session: "cli".to_owned(),
        actor: "a".to_owned(),
        root: "/home/a/work".to_owned(),
    };
    let call = ToolCall {
        id: "call-1".to_owned(),
        name: "exec".to_owned(),
        args: json!({ "command": "as the model wrote it" }),
        source: ToolSource::Model,
    };
    Prepared::new(call, requester, Risk::Execute, false, preparation)
}

pub(crate) fn decision(can_be_saved: bool) -> Decision {
    Decision {
        verdict: Verdict::Ask,
        stage: StageKind::Exec,
        rule: "tools.exec.ask".to_owned(),
        reason: "every command asks".to_owned(),
        can_be_saved,
        allowed_by: None,
        trail: Vec::new(),
    }
}

/// A question with the rule that covers exactly the call.
pub(crate) fn question(call: &Prepared) -> Question {
    Question::of(call, &decision(true), AllowMatch::of(call))
}

/// A pending question about `git log`, asked by `a`.
pub(crate) fn approval(now: i64, expires_at: i64) -> Approval {
    let call = exec_call(&[&["git", "log"]]);
    Approval::ask(Id::from_parts(1, [1; 10]), None, &call, question(&call), now, expires_at)
}
