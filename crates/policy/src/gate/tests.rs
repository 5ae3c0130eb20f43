//! Tests of the gate: what passes, what is held, and with whose yes.

use serde_json::json;
use tidegate_protocol::{ApprovalId, Id, Risk};

use super::{Gate, Held};
use crate::approval::{AllowRule, Approval, ApprovalState, Grant, Question};
use crate::call::{Preparation, Prepared};
use crate::digest::Digest;
use crate::exec::{Ask, AskFallback, ExecPolicy, Security};
use crate::tools::tests::{
    NORMAL, SENSITIVE, allowlist_exec, call, gist, global, list, open_exec, pipeline, plan, policy, prepared,
    running, saved_command, saved_paths, scope, touching, with,
};
use crate::tools::{Circumstances, Profile, StageKind, ToolPolicy, Trust, Verdict};

fn gate(policy: &ToolPolicy) -> Gate {
    Gate::new(pipeline(policy))
}

/// `write` asks.
fn asking() -> Gate {
    let mut stage = global();
    stage.modes = [("write".to_owned(), Verdict::Ask)].into();
    gate(&with(Profile::Full, stage))
}

fn grant_for(digest: &Digest) -> Grant {
    let approval = Approval {
        id: ApprovalId::from_parts(1, [1; 10]),
        scope: scope("main"),
        session: "agent:main:main".to_owned(),
        run: None,
        call_id: "1".to_owned(),
        tool: "write".to_owned(),
        digest: digest.clone(),
        requester: "local:owner".to_owned(),
        question: Question {
            root: String::new(),
            tool: "write".to_owned(),
            args: json!({}),
            plan: None,
            subjects: Vec::new(),
            preview: None,
            reason: String::new(),
            rule: None,
        },
        state: ApprovalState::Approved,
        answered: None,
        created_at: 1,
        expires_at: 9,
        updated_at: 1,
    };
    approval.use_up(digest, 2).unwrap().1
}

#[test]
fn what_the_rules_allow_passes_as_it_is() {
    let read = touching("read", Risk::Read, &["a.md"]);
    let permitted = gate(&policy(Profile::Safe)).permit(read.clone(), &NORMAL).unwrap();
    assert_eq!(permitted.prepared(), &read);
    assert_eq!(permitted.decision().rule, "tools.profile");
    assert!(permitted.plan().is_none());
}

#[test]
fn a_gate_shows_the_rules_it_goes_by() {
    let gate = gate(&ToolPolicy { exec: open_exec(), ..policy(Profile::Minimal) });
    assert_eq!(gate.pipeline().tools(["read", "session_status"], Trust::Normal), ["session_status"]);
    assert_eq!(gate.pipeline().exec(), &open_exec());
}

#[test]
fn the_plan_that_passes_is_the_plan_that_was_prepared() {
    let plan = plan(&[&["git", "status"], &["ls", "-l"]]);
    let gate = gate(&ToolPolicy { exec: open_exec(), ..policy(Profile::Coding) });
    let permitted = gate.permit(running("exec", plan.clone()), &NORMAL).unwrap();
    assert_eq!(permitted.plan().unwrap().plan(), &plan);
}

#[test]
fn what_asks_is_held_with_the_call_and_what_is_denied_without() {
    let write = touching("write", Risk::Write, &["a.md"]);
    let Err(Held::Asks(held, decision)) = asking().permit(write.clone(), &NORMAL) else { panic!() };
    assert_eq!(
        (*held, gist(&decision)),
        (write.clone(), (Verdict::Ask, StageKind::Global, "tools.modes.write"))
    );
    let Err(Held::Denied(decision)) = gate(&policy(Profile::Safe)).permit(write, &NORMAL) else { panic!() };
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Profile, "tools.profile"));
}

#[test]
fn an_approved_call_passes() {
    let write = touching("write", Risk::Write, &["a.md"]);
    let grant = grant_for(write.digest());
    let permitted = asking().permit_approved(write.clone(), grant, &NORMAL).unwrap();
    assert_eq!(permitted.prepared(), &write);
    assert_eq!(permitted.decision().rule, "tools.modes.write");
    // Also when the rules have come to allow it by themselves.
    let grant = grant_for(write.digest());
    assert!(gate(&policy(Profile::Full)).permit_approved(write, grant, &NORMAL).is_ok());
}

#[test]
fn a_yes_to_one_call_is_not_a_yes_to_another() {
    let approved = touching("write", Risk::Write, &["a.md"]);
    let other = touching("write", Risk::Write, &["b.md"]);
    let refused = asking().permit_approved(other, grant_for(approved.digest()), &NORMAL).unwrap_err();
    assert_eq!(gist(&refused), (Verdict::Deny, StageKind::Shipped, "approval"));
    assert_eq!(refused.reason, "the call is not the one that was approved");
    let previewed = Preparation { preview: Some("+ x".to_owned()), ..Preparation::default() };
    let previewed = prepared("write", Risk::Write, json!({}), previewed);
    let grant = grant_for(call("write", Risk::Write).digest());
    assert!(asking().permit_approved(previewed, grant, &NORMAL).is_err());
}

#[test]
fn no_yes_gets_past_a_deny() {
    let write = touching("write", Risk::Write, &["a.md"]);
    let mut stage = global();
    stage.deny = list(&["write"]);
    let gate = gate(&with(Profile::Full, stage));
    let refused = gate.permit_approved(write.clone(), grant_for(write.digest()), &NORMAL).unwrap_err();
    assert_eq!(gist(&refused), (Verdict::Deny, StageKind::Global, "tools.deny[0]"));

    let destroys = running("exec", plan(&[&["rm", "-rf", "/"]]));
    let refused = asking().permit_approved(destroys.clone(), grant_for(destroys.digest()), &NORMAL);
    assert_eq!(refused.unwrap_err().stage, StageKind::Shipped);

    let fetch = call("web_fetch", Risk::Network);
    let refused = asking().permit_approved(fetch.clone(), grant_for(fetch.digest()), &SENSITIVE);
    assert_eq!(refused.unwrap_err().stage, StageKind::Trust);
}

/// Commands of which `git status` is saved, asked about each time.
fn unanswered(
    exec: ExecPolicy,
    change: impl FnOnce(&mut ToolPolicy),
    call: Prepared,
    rules: &[AllowRule],
) -> (Verdict, String) {
    let mut policy = ToolPolicy { exec, ..policy(Profile::Coding) };
    policy.stages.push(global());
    change(&mut policy);
    let facts = Circumstances { trust: Trust::Normal, allowed: rules };
    match gate(&policy).permit_unanswered(call, &facts) {
        Ok(permitted) => (permitted.decision().verdict, String::new()),
        Err(decision) => (decision.verdict, decision.reason),
    }
}

fn falls_back() -> ExecPolicy {
    ExecPolicy { ask: Ask::Always, fallback: AskFallback::Allowlist, ..allowlist_exec() }
}

fn status() -> Prepared {
    running("exec", plan(&[&["git", "status"]]))
}

#[test]
fn a_command_that_the_allowlist_covers_runs_when_nobody_answers_and_that_was_wanted() {
    let rules = [saved_command(1, "/usr/bin/git", &["status"])];
    let unconfined = ExecPolicy { confined: false, ..falls_back() };
    let full = ExecPolicy { security: Security::Full, ..falls_back() };
    for exec in [falls_back(), unconfined, full] {
        assert_eq!(unanswered(exec, |_| {}, status(), &rules), (Verdict::Allow, String::new()));
    }
}

#[test]
fn a_question_that_nobody_answers_is_a_no_otherwise() {
    let rules = [saved_command(1, "/usr/bin/git", &["status"])];
    let denied = |(verdict, reason): (Verdict, String), because: &str| {
        assert_eq!(verdict, Verdict::Deny);
        assert!(reason.starts_with("nobody answered in time (") && reason.contains(because), "{reason}");
    };
    let deny = ExecPolicy { fallback: AskFallback::Deny, ..falls_back() };
    denied(unanswered(deny, |_| {}, status(), &rules), "");
    // Nothing is saved, or something else, or only a part.
    denied(unanswered(falls_back(), |_| {}, status(), &[]), "");
    let full = ExecPolicy { security: Security::Full, ..falls_back() };
    denied(unanswered(full, |_| {}, status(), &[]), "");
    let push = running("exec", plan(&[&["git", "status"], &["git", "push"]]));
    denied(unanswered(falls_back(), |_| {}, push, &rules), "");
    // Somebody else than the exec stage asked.
    let mode = |policy: &mut ToolPolicy| {
        policy.stages[0].modes = [("exec".to_owned(), Verdict::Ask)].into();
    };
    denied(unanswered(falls_back(), mode, status(), &rules), "tools.modes.exec");
    // It is no command.
    let write = touching("write", Risk::Write, &["a.md"]);
    let mode = |policy: &mut ToolPolicy| {
        policy.stages[0].modes = [("write".to_owned(), Verdict::Ask)].into();
    };
    denied(unanswered(falls_back(), mode, write, &[]), "tools.modes.write");
}

#[test]
fn an_unanswered_question_cannot_be_saved_any_more() {
    let write = touching("write", Risk::Write, &["a.md"]);
    let Err(Held::Asks(_, asked)) = asking().permit(write.clone(), &NORMAL) else { panic!() };
    assert!(asked.can_be_saved);
    let refused = asking().permit_unanswered(write, &NORMAL).unwrap_err();
    assert_eq!(gist(&refused), (Verdict::Deny, StageKind::Global, "tools.modes.write"));
    assert!(!refused.can_be_saved);
}

#[test]
fn an_unanswered_question_does_not_undo_a_deny_and_is_none_where_the_rules_have_come_to_allow() {
    let rules = [saved_command(1, "/usr/bin/git", &["status"])];
    let security = ExecPolicy { security: Security::Deny, ..falls_back() };
    let (verdict, reason) = unanswered(security, |_| {}, status(), &rules);
    assert_eq!(verdict, Verdict::Deny);
    assert!(!reason.contains("nobody answered"), "{reason}");
    let (verdict, _) = unanswered(ExecPolicy::default(), |_| {}, touching("read", Risk::Read, &["a"]), &[]);
    assert_eq!(verdict, Verdict::Allow);
    let saved = [saved_paths(1, "read", &["a"])];
    let mode = |policy: &mut ToolPolicy| {
        policy.stages[0].modes = [("read".to_owned(), Verdict::Ask)].into();
    };
    let (verdict, _) = unanswered(ExecPolicy::default(), mode, touching("read", Risk::Read, &["a"]), &saved);
    assert_eq!(verdict, Verdict::Allow);
}
