//! Stages together: order, trust, risk, commands, and what a decision tells.

use tidegate_protocol::Risk;

use super::{
    NORMAL, SENSITIVE, allowlist_exec, call, decide, gist, global, list, open_exec, pipeline, plan, policy,
    running, saved_command, with,
};
use crate::call::{Preparation, Prepared, Subject, SubjectKind};
use crate::exec::{ExecPolicy, Security};
use crate::tools::{
    Circumstances, Pipeline, Profile, Stage, StageKind, StageSaid, ToolPolicy, Trust, Verdict,
};

const KINDS: [(StageKind, &str); 6] = [
    (StageKind::Provider, "tools.byProvider.local"),
    (StageKind::Global, "tools"),
    (StageKind::Agent, "agents.list[main].tools"),
    (StageKind::Group, "channels.x.groups.y.tools"),
    (StageKind::Sandbox, "tools.sandbox.tools"),
    (StageKind::Subagent, "tools.subagents.tools"),
];

#[test]
fn every_kind_of_stage_can_deny_and_is_named() {
    for (kind, source) in KINDS {
        let mut stage = Stage::new(kind, source);
        stage.deny = list(&["read"]);
        let decision = decide(&with(Profile::Full, stage), &call("read", Risk::Read));
        assert_eq!(gist(&decision), (Verdict::Deny, kind, format!("{source}.deny[0]").as_str()));
    }
}

#[test]
fn the_trail_has_every_stage_in_order_whatever_the_order_they_came_in() {
    let mut policy = policy(Profile::Full);
    policy.stages = KINDS.iter().rev().map(|(kind, source)| Stage::new(*kind, *source)).collect();
    let said = |stage: StageKind, rule: &str| StageSaid { stage, verdict: Verdict::Allow, rule: rule.into() };
    let mut expected = vec![said(StageKind::Profile, "tools.profile")];
    expected.extend(KINDS.iter().map(|(kind, source)| said(*kind, source)));
    let decision = decide(&policy, &call("read", Risk::Read));
    assert_eq!(decision.trail, expected);
    assert_eq!(gist(&decision), (Verdict::Allow, StageKind::Profile, "tools.profile"));
    assert_eq!(decision.reason, "tools.profile has it");
}

#[test]
fn the_first_of_the_strictest_stages_decides() {
    let mut asks = global();
    asks.modes = [("read".to_owned(), Verdict::Ask)].into();
    let mut denies = Stage::new(StageKind::Agent, "agents.list[main].tools");
    denies.deny = list(&["read"]);
    let mut denies_too = Stage::new(StageKind::Subagent, "tools.subagents.tools");
    denies_too.deny = list(&["read"]);
    let policy = ToolPolicy { stages: vec![denies_too, asks, denies], ..policy(Profile::Full) };
    let decision = decide(&policy, &call("read", Risk::Read));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Agent, "agents.list[main].tools.deny[0]"));
    let verdicts: Vec<_> = decision.trail.iter().map(|said| said.verdict).collect();
    assert_eq!(verdicts, [Verdict::Allow, Verdict::Ask, Verdict::Deny, Verdict::Deny]);
    assert!(!decision.can_be_saved);
}

#[test]
fn only_whoever_may_run_commands_may_patch_files() {
    for (allowed, verdict) in
        [("exec", Verdict::Allow), ("apply_patch", Verdict::Allow), ("group:plugins", Verdict::Deny)]
    {
        let mut stage = global();
        stage.allow = Some(list(&[allowed]));
        let decision = decide(&with(Profile::Full, stage), &call("apply_patch", Risk::Write));
        assert_eq!(decision.verdict, verdict, "{allowed}");
    }
}

#[test]
fn a_sensitive_session_has_no_web_tools() {
    let pipeline = pipeline(&policy(Profile::Full));
    for (tool, risk) in [
        ("web_search", Risk::Network),
        ("web_fetch", Risk::Network),
        ("http.request", Risk::Execute),
        ("browser", Risk::Read),
        ("image", Risk::Network),
    ] {
        let decision = pipeline.decide(&call(tool, risk), &SENSITIVE);
        assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Trust, "sensitive session"), "{tool}");
        let normal = pipeline.decide(&call(tool, risk), &NORMAL);
        assert_ne!(normal.verdict, Verdict::Deny, "{tool}");
    }
    for (tool, risk) in [("read", Risk::Read), ("write", Risk::Write), ("image", Risk::Read)] {
        assert_eq!(pipeline.decide(&call(tool, risk), &SENSITIVE).verdict, Verdict::Allow, "{tool}");
    }
}

#[test]
fn a_sensitive_session_reaches_no_host_whatever_risk_the_tool_was_given() {
    let policy = ToolPolicy { plugins: vec!["tools.custom.post".to_owned()], ..policy(Profile::Full) };
    let pipeline = pipeline(&policy);
    for kind in [SubjectKind::Host, SubjectKind::Url] {
        for risk in [Risk::Read, Risk::Write, Risk::Execute] {
            let subjects = vec![Subject::new(kind, "example.org")];
            let preparation = Preparation { subjects, ..Preparation::default() };
            let plain = call("tools.custom.post", risk);
            let (call, requester) = (plain.call().clone(), plain.requester().clone());
            let call = Prepared::new(call, requester, risk, true, preparation);
            let decision = pipeline.decide(&call, &SENSITIVE);
            assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Trust, "sensitive session"), "{risk:?}");
            assert_ne!(pipeline.decide(&call, &NORMAL).verdict, Verdict::Deny, "{risk:?}");
        }
    }
}

#[test]
fn what_changes_things_elsewhere_asks_unless_told_otherwise() {
    assert_eq!(ToolPolicy::default().high_risk, Verdict::Ask);
    for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
        let policy = ToolPolicy { high_risk: verdict, ..policy(Profile::Full) };
        let decision = decide(&policy, &call("gateway", Risk::Execute));
        assert_eq!(decision.verdict, verdict);
        assert_eq!(decision.trail.last().unwrap().stage, StageKind::Risk);
        if verdict != Verdict::Allow {
            assert_eq!(gist(&decision), (verdict, StageKind::Risk, "tools.highRisk"));
        }
        for risk in [Risk::Read, Risk::Write, Risk::Network] {
            let decision = decide(&policy, &call("gateway", risk));
            assert_eq!((decision.verdict, decision.trail.len()), (Verdict::Allow, 1), "{risk:?}");
        }
    }
}

#[test]
fn a_mode_that_allows_does_not_take_the_question_of_a_dangerous_tool_away() {
    let mut stage = global();
    stage.modes = [("gateway".to_owned(), Verdict::Allow)].into();
    assert_eq!(decide(&with(Profile::Full, stage), &call("gateway", Risk::Execute)).verdict, Verdict::Ask);
}

#[test]
fn commands_are_decided_by_the_exec_stage_and_not_by_their_risk() {
    let run = running("exec", plan(&[&["git", "status"]]));
    for high_risk in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
        let policy = ToolPolicy { exec: open_exec(), high_risk, ..policy(Profile::Coding) };
        let decision = decide(&policy, &run);
        assert_eq!((decision.verdict, decision.stage), (Verdict::Allow, StageKind::Exec));
        let stages: Vec<_> = decision.trail.iter().map(|said| said.stage).collect();
        assert_eq!(stages, [StageKind::Profile, StageKind::Exec]);
    }
    let asks = decide(&policy(Profile::Coding), &run);
    assert_eq!((asks.verdict, asks.stage), (Verdict::Ask, StageKind::Exec));
    let security = ExecPolicy { security: Security::Deny, ..open_exec() };
    let denies = decide(&ToolPolicy { exec: security, ..policy(Profile::Coding) }, &run);
    assert_eq!((denies.verdict, denies.stage), (Verdict::Deny, StageKind::Exec));
}

#[test]
fn a_dangerous_tool_that_shows_no_plan_still_asks() {
    let policy = ToolPolicy { exec: open_exec(), ..policy(Profile::Coding) };
    let decision = decide(&policy, &call("exec", Risk::Execute));
    assert_eq!(gist(&decision), (Verdict::Ask, StageKind::Risk, "tools.highRisk"));
}

#[test]
fn the_exec_stage_cannot_give_what_another_one_denies() {
    let run = running("exec", plan(&[&["git", "status"]]));
    let policy = ToolPolicy { exec: open_exec(), ..policy(Profile::Safe) };
    assert_eq!(gist(&decide(&policy, &run)), (Verdict::Deny, StageKind::Profile, "tools.profile"));
    let mut stage = global();
    stage.modes = [("exec".to_owned(), Verdict::Ask)].into();
    let policy = ToolPolicy { exec: open_exec(), ..with(Profile::Full, stage) };
    let decision = decide(&policy, &run);
    assert_eq!(gist(&decision), (Verdict::Ask, StageKind::Global, "tools.modes.exec"));
    assert!(!decision.can_be_saved, "a rule about commands does not answer a mode");
}

#[test]
fn the_shipped_list_beats_every_allow() {
    let policy = ToolPolicy { exec: open_exec(), high_risk: Verdict::Allow, ..policy(Profile::Full) };
    let run = running("exec", plan(&[&["git", "status"], &["rm", "-rf", "/"]]));
    let rules =
        [saved_command(1, "/usr/bin/rm", &["-rf", "/"]), saved_command(2, "/usr/bin/git", &["status"])];
    let facts = Circumstances { trust: Trust::Normal, allowed: &rules };
    let decision = pipeline(&policy).decide(&run, &facts);
    assert_eq!((decision.verdict, decision.stage), (Verdict::Deny, StageKind::Shipped));
    assert_eq!(decision.trail.len(), 1);
    assert!(!decision.can_be_saved);
    // Also for a tool that nobody knows, and where nobody would have asked.
    let decision = Pipeline::default().decide(&run, &facts);
    assert_ne!(decision.rule, "unknown tool");
}

#[test]
fn a_question_about_a_command_can_be_saved_when_the_exec_stage_says_so() {
    let run = running("exec", plan(&[&["git", "status"]]));
    let policy = ToolPolicy { exec: allowlist_exec(), ..policy(Profile::Coding) };
    let decision = decide(&policy, &run);
    assert_eq!((decision.verdict, decision.can_be_saved), (Verdict::Ask, true));
    let unconfined = decide(&ToolPolicy { exec: ExecPolicy::default(), ..policy }, &run);
    assert_eq!((unconfined.verdict, unconfined.can_be_saved), (Verdict::Ask, false));
}

#[test]
fn an_empty_pipeline_denies() {
    let decision = Pipeline::default().decide(&call("read", Risk::Read), &NORMAL);
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Shipped, "unknown tool"));
    assert!(Pipeline::default().tools(["read"], Trust::Normal).is_empty());
    assert_eq!(Pipeline::default().warnings(), []);
}

#[test]
fn verdicts_are_ordered_by_strictness_and_written_as_modes() {
    assert!(Verdict::Allow < Verdict::Ask && Verdict::Ask < Verdict::Deny);
    for (verdict, text) in
        [(Verdict::Allow, "allow"), (Verdict::Ask, "approval-required"), (Verdict::Deny, "deny")]
    {
        assert_eq!(serde_json::to_value(verdict).unwrap(), text);
    }
}

#[test]
fn a_tool_that_fetches_is_held_to_what_is_said_about_fetching() {
    let fetching = call("image", Risk::Network);
    let decision = decide(&policy(Profile::Coding), &fetching);
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Profile, "tools.profile"));
    assert!(decision.reason.contains("web_fetch"), "{}", decision.reason);
    assert_eq!(decide(&policy(Profile::Coding), &call("image", Risk::Read)).verdict, Verdict::Allow);
    assert_eq!(decide(&policy(Profile::Full), &fetching).verdict, Verdict::Allow);
    let mut asks = global();
    asks.modes = [("web_fetch".to_owned(), Verdict::Ask)].into();
    assert_eq!(decide(&with(Profile::Full, asks), &fetching).verdict, Verdict::Ask);
}
