//! Approvals and saved rules: asked, answered once, used once.

use async_trait::async_trait;
use tidegate_policy::approval::{AllowRule, Answer, Approval, ApprovalState, Grant, UseRefused};
use tidegate_policy::{Digest, Principal};
use tidegate_protocol::{AllowRuleId, ApprovalId, RunId, Scope, TenantId};

use crate::error::Result;

#[async_trait]
pub trait Approvals: Send + Sync {
    /// Puts a question. It is `pending` and durable when this returns; the audit trail has it.
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

    /// Ends pending questions that nobody waits for any more: one, or all of a run. Answers which it ended.
    async fn cancel_approvals(&self, tenant: &TenantId, which: Cancelled, now: i64) -> Result<Vec<Approval>>;

    /// Ends pending questions, and yeses nobody used, whose time has passed. At most `limit` at once.
    async fn expire_approvals(&self, tenant: &TenantId, now: i64, limit: u32) -> Result<Vec<Approval>>;

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Approval>>;

    /// The newest first.
    async fn approvals(&self, tenant: &TenantId, filter: ApprovalFilter) -> Result<Vec<Approval>>;

    /// Saved rules, the newest first: those of one agent, or all.
    async fn allow_rules(&self, tenant: &TenantId, scope: Option<&Scope>) -> Result<Vec<AllowRule>>;

    /// Saves a rule without a question.
    async fn save_allow_rule(&self, principal: &Principal, rule: AllowRule) -> Result<()>;

    /// Whether there was such a rule.
    async fn remove_allow_rule(&self, principal: &Principal, id: AllowRuleId, now: i64) -> Result<bool>;

    /// Notes that a saved rule let a call through.
    async fn touch_allow_rule(&self, tenant: &TenantId, id: AllowRuleId, now: i64) -> Result<()>;

    /// Puts what became of a tool call that belongs to no run on record.
    async fn audit_tool(&self, principal: &Principal, record: ToolRecord) -> Result<()>;
}

/// A line of the audit trail about a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRecord {
    /// `tool.denied`, `tool.run`, `tool.failed`.
    pub action: &'static str,
    pub tool: String,
    pub call_id: String,
    pub metadata: serde_json::Value,
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

/// Whether people may approve what they asked for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCalls {
    MayApprove,
    /// They may still say no.
    MayNotApprove,
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
