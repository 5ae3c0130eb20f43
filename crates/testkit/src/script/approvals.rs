//! The part of a script that is about approvals and saved rules.

use std::fmt::Debug;

use tidegate_policy::Digest;
use tidegate_policy::approval::{AllowRule, Answer, Approval, NewAllowRule};
use tidegate_protocol::{ApprovalId, RunId};
use tidegate_storage::{
    AuditEvent, Cancelled, DecideApproval, OwnCalls, Result, Store, StoreError, ToolRecord,
};

use super::Verb;
use crate::requests::{ASKED_FOR_MS, Requests};

/// A question of the run under way and a saved rule.
#[derive(Debug)]
pub(super) struct Asked {
    question: Approval,
    rule: AllowRule,
}

/// A question that reads the same in every tenant: a real digest names its tenant.
fn question(make: &Requests, run: Option<RunId>) -> Approval {
    Approval { digest: Digest::stored(format!("digest {}", make.draw())), ..make.approval(run) }
}

/// Puts a question and saves a rule, and brings them to where the verb begins.
pub(super) async fn prepare(
    verb: Verb,
    store: &dyn Store,
    make: &Requests,
    run: RunId,
    tell: &mut (dyn FnMut(Verb, &dyn Debug) + Send),
) -> Result<Asked> {
    let (asked, rule) = (question(make, Some(run)), make.allow_rule("/usr/bin/git"));
    store.request_approval(asked.clone()).await?;
    tell(Verb::RequestApproval, &());
    store.save_allow_rule(&make.principal(), rule.clone()).await?;
    tell(Verb::SaveAllowRule, &());
    match verb {
        Verb::UseApproval => {
            let yes = decide(make, asked.id, Answer::AllowOnce);
            tell(Verb::DecideApproval, &store.decide_approval(yes).await?);
        }
        Verb::Sweep => {
            let which = Cancelled::One(asked.id);
            let cancelled = store.cancel_approvals(make.tenant(), which, make.now()).await?;
            tell(Verb::CancelApprovals, &cancelled);
        }
        _ => {}
    }
    Ok(Asked { question: asked, rule })
}

fn decide(make: &Requests, id: ApprovalId, answer: Answer) -> DecideApproval {
    DecideApproval { id, by: make.approver(), answer, own: OwnCalls::MayNotApprove, now: make.now() }
}

/// Plays a verb about approvals.
pub(super) async fn perform(
    verb: Verb,
    store: &dyn Store,
    make: &Requests,
    seed: u64,
    asked: &Asked,
) -> Result<Box<dyn Debug + Send>> {
    let (tenant, id) = (make.tenant(), asked.question.id);
    Ok(match verb {
        Verb::RequestApproval => Box::new(store.request_approval(question(make, None)).await?),
        Verb::DecideApproval => {
            let answer = match (seed % 3, rule_of(make, &asked.question)) {
                (0, _) => Answer::AllowOnce,
                (1, Some(rule)) => Answer::AllowAlways(rule),
                _ => Answer::Deny { reason: Some("not today".to_owned()) },
            };
            Box::new(store.decide_approval(decide(make, id, answer)).await?)
        }
        Verb::UseApproval => {
            Box::new(store.use_approval(tenant, id, &asked.question.digest, make.now()).await?)
        }
        Verb::CancelApprovals => {
            let which = match asked.question.run {
                Some(run) if seed % 2 == 1 => Cancelled::OfRun(run),
                _ => Cancelled::One(id),
            };
            Box::new(store.cancel_approvals(tenant, which, make.now()).await?)
        }
        Verb::ExpireApprovals => {
            let late = make.now() + ASKED_FOR_MS;
            Box::new(store.expire_approvals(tenant, late, 9).await?)
        }
        Verb::SaveAllowRule => {
            let rule = make.allow_rule("/usr/bin/ls");
            Box::new(store.save_allow_rule(&make.principal(), rule).await?)
        }
        Verb::RemoveAllowRule => {
            Box::new(store.remove_allow_rule(&make.principal(), asked.rule.id, make.now()).await?)
        }
        Verb::TouchAllowRule => Box::new(store.touch_allow_rule(tenant, asked.rule.id, make.now()).await?),
        Verb::AuditTool => {
            let record = ToolRecord {
                action: "tool.denied",
                tool: "exec".to_owned(),
                call_id: "call-1".to_owned(),
                metadata: serde_json::json!({ "rule": "shipped" }),
                now: make.now(),
            };
            Box::new(store.audit_tool(&make.principal(), record).await?)
        }
        Verb::AuditEvent => {
            let event = AuditEvent {
                action: "service.started",
                resource_type: "service",
                resource_id: "db".to_owned(),
                metadata: serde_json::json!({ "pid": 7 }),
                now: make.now(),
            };
            Box::new(store.audit_event(&make.principal(), event).await?)
        }
        other => return Err(StoreError::Internal(format!("{} is not about approvals", other.as_str()))),
    })
}

/// What `allow-always` saves about a question.
fn rule_of(make: &Requests, asked: &Approval) -> Option<NewAllowRule> {
    let matches = asked.question.rule_for(None)?;
    Some(NewAllowRule { id: make.id(), matches })
}
