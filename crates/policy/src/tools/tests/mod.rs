//! Tests of the pipeline, and the calls they are made with.

mod names;
mod properties;
mod rules;
mod saved;
mod stages;
mod vectors;

use serde_json::{Value, json};
use tidegate_protocol::{AgentId, AllowRuleId, Id, Risk, Scope, ToolCall, ToolSource};

use super::{
    AlsoAllow, Base, Circumstances, Decision, Pipeline, Profile, Stage, StageKind, ToolPolicy, Trust, Verdict,
};
use crate::approval::{AllowMatch, AllowRule, CommandMatch};
use crate::call::{Preparation, Prepared, Requester, Subject, SubjectKind};
use crate::exec::{Ask, ExecPolicy, Plan, Security};

pub(crate) const NORMAL: Circumstances<'static> = Circumstances { trust: Trust::Normal, allowed: &[] };
pub(crate) const SENSITIVE: Circumstances<'static> = Circumstances { trust: Trust::Sensitive, allowed: &[] };

pub(crate) fn requester() -> Requester {
    Requester {
        scope: scope("main"),
        session: "agent:main:main".to_owned(),
        actor: "local:owner".to_owned(),
        root: "/home/ann/workspace".to_owned(),
    }
}

pub(crate) fn scope(agent: &str) -> Scope {
    Scope::personal(agent.parse::<AgentId>().unwrap())
}

/// A call that touches nothing and starts nothing.
pub(crate) fn call(tool: &str, risk: Risk) -> Prepared {
    prepared(tool, risk, json!({}), Preparation::default())
}

pub(crate) fn prepared(tool: &str, risk: Risk, args: Value, preparation: Preparation) -> Prepared {
    let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), args, source: ToolSource::Model };
    Prepared::new(call, requester(), risk, true, preparation)
}

pub(crate) fn touching(tool: &str, risk: Risk, paths: &[&str]) -> Prepared {
    let subjects = paths.iter().map(|path| Subject::new(SubjectKind::Path, *path)).collect();
    prepared(tool, risk, json!({}), Preparation { subjects, ..Preparation::default() })
}

pub(crate) fn running(tool: &str, plan: Plan) -> Prepared {
    let preparation = Preparation { plan: Some(plan), ..Preparation::default() };
    prepared(tool, Risk::Execute, json!({}), preparation)
}

/// Programs of `/usr/bin`, one after the other.
pub(crate) fn plan(commands: &[&[&str]]) -> Plan {
    plan_with(commands, true, None)
}

pub(crate) fn plan_with(commands: &[&[&str]], trusted: bool, opaque: Option<&str>) -> Plan {
    let steps: Vec<_> = commands
        .iter()
        .map(|argv| {
            let path =
                if argv[0].contains('/') { argv[0].to_owned() } else { format!("/usr/bin/{}", argv[0]) };
            let identity = json!({ "device": 1, "inode": 2, "size": 3, "modified": 4 });
            let program = json!({ "path": path, "identity": identity, "trusted": trusted });
            json!({ "join": "then", "pipeline": [{ "program": program, "argv": argv }] })
        })
        .collect();
    let opaque = opaque.map(|script| json!({ "reason": "it uses `$(…)`", "script": script }));
    let place = json!({ "cwd": "/home/ann/workspace", "env": {}, "addedEnv": {} });
    let mut plan = place;
    plan["steps"] = steps.into();
    plan["opaque"] = opaque.into();
    serde_json::from_value(plan).unwrap()
}

/// One program that is not what it was called as.
pub(crate) fn plan_called_as(name: &str, argv: &[&str]) -> Plan {
    let mut value = serde_json::to_value(plan(&[argv])).unwrap();
    value["steps"][0]["pipeline"][0]["argv"][0] = name.into();
    serde_json::from_value(value).unwrap()
}

pub(crate) fn policy(profile: Profile) -> ToolPolicy {
    ToolPolicy { base: Base { profile, ..Base::default() }, ..ToolPolicy::default() }
}

/// Commands run without a question where nothing else stands in the way.
pub(crate) fn open_exec() -> ExecPolicy {
    ExecPolicy { security: Security::Full, ask: Ask::Off, unconfined_by_name: true, ..ExecPolicy::default() }
}

/// Commands run when the allowlist covers them, and ask otherwise.
pub(crate) fn allowlist_exec() -> ExecPolicy {
    ExecPolicy { confined: true, ..ExecPolicy::default() }
}

pub(crate) fn pipeline(policy: &ToolPolicy) -> Pipeline {
    Pipeline::new(policy).unwrap()
}

pub(crate) fn decide(policy: &ToolPolicy, prepared: &Prepared) -> Decision {
    pipeline(policy).decide(prepared, &NORMAL)
}

pub(crate) fn with(profile: Profile, stage: Stage) -> ToolPolicy {
    ToolPolicy { stages: vec![stage], ..policy(profile) }
}

pub(crate) fn global() -> Stage {
    Stage::new(StageKind::Global, "tools")
}

pub(crate) fn list(tools: &[&str]) -> Vec<String> {
    tools.iter().map(|&tool| tool.to_owned()).collect()
}

pub(crate) fn also(tools: &[&str]) -> Vec<AlsoAllow> {
    vec![AlsoAllow { source: "tools.alsoAllow".to_owned(), tools: list(tools) }]
}

pub(crate) fn rule_id(number: u8) -> AllowRuleId {
    AllowRuleId::from_parts(1, [number; 10])
}

pub(crate) fn saved(number: u8, tool: &str, matches: AllowMatch) -> AllowRule {
    AllowRule {
        id: rule_id(number),
        scope: scope("main"),
        tool: tool.to_owned(),
        matches,
        created_by: "local:owner".to_owned(),
        approval: None,
        created_at: 1,
        last_used_at: None,
    }
}

pub(crate) fn saved_command(number: u8, program: &str, args: &[&str]) -> AllowRule {
    let command = CommandMatch { program: program.to_owned(), args: list(args), open: false };
    saved(number, "exec", AllowMatch::Commands(vec![command]))
}

pub(crate) fn saved_paths(number: u8, tool: &str, paths: &[&str]) -> AllowRule {
    let subjects = paths.iter().map(|path| Subject::new(SubjectKind::Path, *path)).collect();
    saved(number, tool, AllowMatch::Subjects(subjects))
}

/// Verdict, stage and rule: what `tools explain` shows first.
pub(crate) fn gist(decision: &Decision) -> (Verdict, StageKind, &str) {
    (decision.verdict, decision.stage, &decision.rule)
}
