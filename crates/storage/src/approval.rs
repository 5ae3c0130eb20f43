//! Approvals and saved rules: asked, answered once, used once.
//!
//! What becomes of a question is decided by the state machine in `policy`. What a backend writes for it, and how it is
//! put on record, is said here once for both of them.

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_policy::approval::{
    AllowRule, Answer, Answering, Approval, ApprovalState, Grant, OwnCalls, UseRefused,
};
use tidegate_policy::{Digest, Principal};
use tidegate_protocol::{AllowRuleId, ApprovalId, RunId, Scope, TenantId};

use crate::error::Result;

#[async_trait]
pub trait Approvals: Send + Sync {
    /// Puts a question. It is `pending`, whatever it was given as, and durable when this returns; the audit trail has
    /// it. `StaleFence`, and no question, when its run has ended.
    async fn request_approval(&self, approval: Approval) -> Result<()>;

    /// Answers a question. The first answer counts; a later one is told what the first one was. A yes with a rule saves
    /// the rule in the same commit. One that is past its time expires instead.
    async fn decide_approval(&self, decide: DecideApproval) -> Result<DecidedApproval>;

    /// Uses a yes up for this call: at most once, whoever asks how often.
    async fn use_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        digest: &Digest,
        now: i64,
    ) -> Result<UsedApproval>;

    /// Ends questions that nobody waits for any more, also those with a yes that was not used: one, or all of a run.
    /// Answers which it ended. The end of a run does the same by itself.
    async fn cancel_approvals(&self, tenant: &TenantId, which: Cancelled, now: i64) -> Result<Vec<Approval>>;

    /// Ends pending questions, and yeses nobody used, whose time has passed. At most `limit` at once.
    async fn expire_approvals(&self, tenant: &TenantId, now: i64, limit: u32) -> Result<Vec<Approval>>;

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Approval>>;

    /// The newest first.
    async fn approvals(&self, tenant: &TenantId, filter: ApprovalFilter) -> Result<Vec<Approval>>;

    /// Saved rules, the newest first: those of one agent, or all. One of a kind that only a newer release knows is
    /// left out: it allows nothing here.
    async fn allow_rules(&self, tenant: &TenantId, scope: Option<&Scope>) -> Result<Vec<AllowRule>>;

    /// Saves a rule without a question.
    async fn save_allow_rule(&self, principal: &Principal, rule: AllowRule) -> Result<()>;

    /// Whether there was such a rule.
    async fn remove_allow_rule(&self, principal: &Principal, id: AllowRuleId, now: i64) -> Result<bool>;

    /// Notes that a saved rule let a call through.
    async fn touch_allow_rule(&self, tenant: &TenantId, id: AllowRuleId, now: i64) -> Result<()>;

    /// Puts what became of a tool call that belongs to no run on record.
    async fn audit_tool(&self, principal: &Principal, record: ToolRecord) -> Result<()>;

    /// Puts something on record that is neither a run nor a tool call.
    async fn audit_event(&self, principal: &Principal, event: AuditEvent) -> Result<()>;
}

/// A line of the audit trail about something that happened by itself: to a service, to an answer on its way out.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// `service.started`, `reply.redacted`, …
    pub action: &'static str,
    pub resource_type: &'static str,
    pub resource_id: String,
    pub metadata: Value,
    pub now: i64,
}

/// A line of the audit trail about a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRecord {
    /// `tool.denied`, `tool.run`, `tool.failed`.
    pub action: &'static str,
    pub tool: String,
    pub call_id: String,
    pub metadata: Value,
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct DecideApproval {
    pub id: ApprovalId,
    pub by: Principal,
    pub answer: Answer,
    /// Whether whoever asked may answer.
    pub own: OwnCalls,
    pub now: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecidedApproval {
    /// This answer counts.
    Won(Approval),
    /// Another one came first, or time ran out, or nobody waits any more: this is how it ended.
    Settled(Approval),
    /// Whoever asked tried to approve it.
    Own,
    /// A rule was to be saved for something that cannot be saved.
    CannotBeSaved,
    NotFound,
}

#[derive(Debug, PartialEq, Eq)]
pub enum UsedApproval {
    Granted(Grant),
    Refused(UseRefused),
    NotFound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    One(ApprovalId),
    OfRun(RunId),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only these; all when empty.
    pub states: Vec<ApprovalState>,
    pub run: Option<RunId>,
    pub limit: u32,
}

/// What an answer writes, and what is told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciding {
    /// The approval as it is from now on, if it changes.
    pub write: Option<Approval>,
    /// The rule to be saved with it.
    pub rule: Option<AllowRule>,
    pub answer: DecidedApproval,
}

impl DecideApproval {
    /// What becomes of the stored question.
    pub fn on(&self, stored: Approval) -> Deciding {
        let unchanged = |answer| Deciding { write: None, rule: None, answer };
        match stored.answer(&self.by, &self.answer, self.own, self.now) {
            Answering::Counts { approval, rule } => Deciding {
                write: Some((*approval).clone()),
                rule: rule.map(|rule| *rule),
                answer: DecidedApproval::Won(*approval),
            },
            Answering::Expires(approval) => Deciding {
                write: Some((*approval).clone()),
                rule: None,
                answer: DecidedApproval::Settled(*approval),
            },
            Answering::Settled => unchanged(DecidedApproval::Settled(stored)),
            Answering::Own => unchanged(DecidedApproval::Own),
            Answering::CannotBeSaved => unchanged(DecidedApproval::CannotBeSaved),
        }
    }
}

/// What using an approval writes, and what is told about it. A yes whose time has passed expires on the way.
pub fn use_stored(stored: &Approval, digest: &Digest, now: i64) -> (Option<Approval>, UsedApproval) {
    match stored.use_up(digest, now) {
        Ok((used, grant)) => (Some(used), UsedApproval::Granted(grant)),
        Err(refused) => (stored.expire(now), UsedApproval::Refused(refused)),
    }
}

/// A line of the audit trail: who did what, and the particulars. Arguments are not among them; the digest is.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditNote {
    pub actor: String,
    pub action: String,
    pub metadata: Value,
}

impl AuditNote {
    /// An approval that came into its present state.
    pub fn of_approval(approval: &Approval) -> Self {
        let (verb, actor) = match (&approval.state, &approval.answered) {
            (ApprovalState::Pending, _) => ("requested", &approval.requester),
            (ApprovalState::Approved | ApprovalState::Denied, Some(answered)) => {
                (approval.state.as_str(), &answered.by)
            }
            (state, _) => (state.as_str(), &approval.requester),
        };
        let mut metadata = json!({
            "tool": approval.tool,
            "callId": approval.call_id,
            "sessionKey": approval.session,
            "digest": approval.digest.as_str(),
        });
        if let Some(run) = approval.run {
            metadata["runId"] = run.to_string().into();
        }
        if let Some(reason) = approval.answered.as_ref().and_then(|answered| answered.reason.as_ref()) {
            metadata["reason"] = reason.as_str().into();
        }
        Self { actor: actor.clone(), action: format!("tool.approval.{verb}"), metadata }
    }

    pub fn of_added_rule(rule: &AllowRule) -> Self {
        let actor = rule.created_by.clone();
        Self { actor, action: "tool.allowlist.added".to_owned(), metadata: particulars(rule) }
    }

    /// The rule itself is absent when only a newer release can read it.
    pub fn of_removed_rule(rule: Option<&AllowRule>, by: &Principal) -> Self {
        let actor = by.actor().to_owned();
        let metadata = rule.map_or_else(|| json!({}), particulars);
        Self { actor, action: "tool.allowlist.removed".to_owned(), metadata }
    }

    pub fn of_event(event: &AuditEvent, by: &Principal) -> Self {
        let AuditEvent { action, metadata, .. } = event;
        Self { actor: by.actor().to_owned(), action: (*action).to_owned(), metadata: metadata.clone() }
    }

    pub fn of_tool(record: &ToolRecord, by: &Principal) -> Self {
        let mut metadata = match &record.metadata {
            Value::Object(particulars) => Value::Object(particulars.clone()),
            Value::Null => json!({}),
            other => json!({ "details": other }),
        };
        metadata["callId"] = record.call_id.as_str().into();
        Self { actor: by.actor().to_owned(), action: record.action.to_owned(), metadata }
    }
}

fn particulars(rule: &AllowRule) -> Value {
    let agent = rule.scope.agent.as_str();
    let mut metadata = json!({ "tool": rule.tool, "agent": agent, "rule": rule.matches });
    if let Some(approval) = rule.approval {
        metadata["approvalId"] = approval.to_string().into();
    }
    metadata
}
