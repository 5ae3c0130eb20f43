//! Saved rules: which questions a saved yes answers, and which it never does.

use serde_json::json;
use tidegate_protocol::Risk;

use super::{
    allowlist_exec, call, gist, global, list, pipeline, plan, policy, prepared, rule_id, running, saved,
    saved_command, saved_paths, scope, touching, with,
};
use crate::approval::{AllowMatch, AllowRule};
use crate::call::{Preparation, Prepared, Subject, SubjectKind};
use crate::tools::{Circumstances, Decision, Profile, Stage, StageKind, ToolPolicy, Trust, Verdict};

fn decide(policy: &ToolPolicy, prepared: &Prepared, allowed: &[AllowRule]) -> Decision {
    pipeline(policy).decide(prepared, &Circumstances { trust: Trust::Normal, allowed })
}

/// `write` asks.
fn asking() -> ToolPolicy {
    let mut stage = global();
    stage.modes = [("write".to_owned(), Verdict::Ask)].into();
    with(Profile::Full, stage)
}

#[test]
fn a_saved_yes_answers_a_mode_for_exactly_what_it_was_about() {
    let write = touching("write", Risk::Write, &["a.md", "b.md"]);
    let decision = decide(&asking(), &write, &[saved_paths(7, "write", &["b.md", "a.md"])]);
    let rule = format!("approvals.allowlist[{}]", rule_id(7));
    assert_eq!(gist(&decision), (Verdict::Allow, StageKind::Saved, rule.as_str()));
    assert_eq!(decision.allowed_by, Some(rule_id(7)));
    let stages: Vec<_> = decision.trail.iter().map(|said| (said.stage, said.verdict)).collect();
    let expected = [
        (StageKind::Profile, Verdict::Allow),
        (StageKind::Global, Verdict::Ask),
        (StageKind::Saved, Verdict::Allow),
    ];
    assert_eq!(stages, expected);
    assert!(!decision.can_be_saved);
}

#[test]
fn a_saved_yes_answers_no_other_call() {
    let write = touching("write", Risk::Write, &["a.md", "b.md"]);
    let mut other_agent = saved_paths(1, "write", &["a.md", "b.md"]);
    other_agent.scope = scope("other");
    let host = saved(1, "write", AllowMatch::Subjects(vec![Subject::new(SubjectKind::Host, "a.md")]));
    let commands = saved(1, "write", AllowMatch::Commands(Vec::new()));
    for rule in [
        saved_paths(1, "write", &["a.md"]),
        saved_paths(1, "write", &["a.md", "b.md", "c.md"]),
        saved_paths(1, "write", &["a.md", "c.md"]),
        saved_paths(1, "write", &[]),
        saved_paths(1, "edit", &["a.md", "b.md"]),
        other_agent,
        host,
        commands,
    ] {
        let decision = decide(&asking(), &write, std::slice::from_ref(&rule));
        assert_eq!(gist(&decision), (Verdict::Ask, StageKind::Global, "tools.modes.write"), "{rule:?}");
        assert_eq!((decision.allowed_by, decision.can_be_saved), (None, true));
        // It does not stand in the way of the one that does.
        let both = [rule, saved_paths(2, "Write", &["a.md", "b.md"])];
        assert_eq!(decide(&asking(), &write, &both).allowed_by, Some(rule_id(2)));
    }
}

#[test]
fn a_saved_yes_answers_the_question_of_a_dangerous_tool() {
    let rules = [saved_paths(1, "nodes", &["a"])];
    let decision = decide(&policy(Profile::Full), &touching("nodes", Risk::Execute, &["a"]), &rules);
    assert_eq!((decision.verdict, decision.allowed_by), (Verdict::Allow, Some(rule_id(1))));
}

#[test]
fn a_saved_yes_answers_every_question_that_was_put_for_the_name() {
    let mut policy = asking();
    let mut agent = Stage::new(StageKind::Agent, "agents.list[main].tools");
    agent.modes = [("write".to_owned(), Verdict::Ask)].into();
    policy.stages.push(agent);
    for risk in [Risk::Write, Risk::Execute] {
        let write = touching("write", risk, &["a.md"]);
        let decision = decide(&policy, &write, &[saved_paths(1, "write", &["a.md"])]);
        assert_eq!((decision.verdict, decision.stage), (Verdict::Allow, StageKind::Saved));
        assert!(decide(&policy, &write, &[]).can_be_saved);
    }
    // A mode and the risk.
    policy.stages.pop();
    let write = touching("write", Risk::Execute, &["a.md"]);
    assert_eq!(decide(&policy, &write, &[saved_paths(1, "write", &["a.md"])]).verdict, Verdict::Allow);
}

#[test]
fn a_saved_yes_never_answers_a_deny() {
    let rules = [saved_paths(1, "write", &["a.md"])];
    let write = touching("write", Risk::Write, &["a.md"]);
    let mut policy = asking();
    policy.stages[0].deny = list(&["write"]);
    let decision = decide(&policy, &write, &rules);
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.deny[0]"));
    assert_eq!((decision.allowed_by, decision.can_be_saved), (None, false));
    // One that asks in one stage and is denied in another.
    let mut policy = asking();
    policy.base.profile = Profile::Safe;
    let decision = decide(&policy, &write, &rules);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Deny, false));
}

#[test]
fn a_yes_about_nothing_is_a_yes_to_nothing() {
    let decision = decide(&asking(), &call("write", Risk::Write), &[saved_paths(1, "write", &[])]);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, false));
}

#[test]
fn a_yes_to_what_its_subjects_do_not_tell_is_for_this_once() {
    let subjects = vec![Subject::new(SubjectKind::Url, "https://example.com/")];
    let rules = [saved(1, "browser", AllowMatch::Subjects(subjects.clone()))];
    for (once, verdict) in [(true, Verdict::Ask), (false, Verdict::Allow)] {
        let preparation = Preparation { subjects: subjects.clone(), once, ..Preparation::default() };
        let click = prepared("browser", Risk::Execute, json!({}), preparation);
        assert_eq!(AllowMatch::of(&click).is_none(), once);
        assert_eq!(decide(&policy(Profile::Full), &click, &[]).can_be_saved, !once);
        assert_eq!(decide(&policy(Profile::Full), &click, &rules).verdict, verdict, "an older rule");
    }
}

#[test]
fn the_question_of_an_argument_rule_is_put_every_time() {
    let mut policy = asking();
    policy.stages[0].rules = vec![super::rules::rule("careful", "write")];
    let rules = [saved_paths(1, "write", &["a.md"])];
    let decision = decide(&policy, &touching("write", Risk::Write, &["a.md"]), &rules);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, false));
    // Also when two of them ask.
    policy.stages[0].rules.push(super::rules::rule("more-careful", "write"));
    let decision = decide(&policy, &touching("write", Risk::Write, &["a.md"]), &rules);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, false));
    policy.stages[0].modes.clear();
    let decision = decide(&policy, &touching("write", Risk::Write, &["a.md"]), &rules);
    assert_eq!(gist(&decision), (Verdict::Ask, StageKind::Global, "tools.rules[careful]"));
    assert!(!decision.can_be_saved);
}

#[test]
fn subjects_say_nothing_about_programs() {
    let subjects = vec![Subject::new(SubjectKind::Path, ".")];
    let plan = plan(&[&["git", "status"]]);
    let preparation = Preparation { subjects, plan: Some(plan), ..Preparation::default() };
    let run = prepared("exec", Risk::Execute, json!({}), preparation);
    let mut stage = global();
    stage.modes = [("exec".to_owned(), Verdict::Ask)].into();
    let policy = ToolPolicy { exec: super::open_exec(), ..with(Profile::Full, stage) };
    let decision = decide(&policy, &run, &[saved_paths(1, "exec", &["."])]);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, false));
}

#[test]
fn a_saved_command_answers_the_exec_stage() {
    let run = running("exec", plan(&[&["git", "status"]]));
    let policy = ToolPolicy { exec: allowlist_exec(), ..policy(Profile::Coding) };
    let rule = saved_command(3, "/usr/bin/git", &["status"]);
    let decision = decide(&policy, &run, std::slice::from_ref(&rule));
    assert_eq!((decision.verdict, decision.stage), (Verdict::Allow, StageKind::Exec));
    assert_eq!(decision.allowed_by, Some(rule_id(3)));
    let mixed = [saved_paths(1, "write", &["a.md"]), saved_command(4, "/usr/bin/git", &["status"])];
    assert_eq!(decide(&policy, &run, &mixed).allowed_by, Some(rule_id(4)));

    let other_agent = AllowRule { scope: scope("other"), ..rule.clone() };
    let other_tool = AllowRule { tool: "deploy".to_owned(), ..rule.clone() };
    for rule in [other_agent, other_tool] {
        let decision = decide(&policy, &run, std::slice::from_ref(&rule));
        assert_eq!((decision.verdict, decision.allowed_by), (Verdict::Ask, None));
        // Nor beside a rule of this agent for this tool that is about something else.
        let decision = decide(&policy, &run, &[saved_command(5, "/usr/bin/ls", &[]), rule]);
        assert_eq!((decision.verdict, decision.allowed_by), (Verdict::Ask, None));
    }
    // What another stage asks remains a question, and the rule did not allow it.
    let mut stage = global();
    stage.modes = [("exec".to_owned(), Verdict::Ask)].into();
    let policy = ToolPolicy { stages: vec![stage], ..policy };
    let decision = decide(&policy, &run, &[rule]);
    assert_eq!((decision.verdict, decision.allowed_by), (Verdict::Ask, None));
    // Two questions cannot be answered by one rule.
    let decision = decide(&policy, &run, &[]);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, false));
}
