//! Forgetting: what has served its time goes, a bounded piece at once.

use async_trait::async_trait;
use tidegate_protocol::{OutboxId, TenantId};

use crate::error::Result;

#[async_trait]
pub trait Sweeper: Send + Sync {
    /// Removes what is older than the times given, at most `limit` rows of each kind, in one short commit. Also frees
    /// what runs reserved that an older release ended: it counts as spent.
    async fn sweep(&self, tenant: &TenantId, sweep: Sweep) -> Result<Swept>;
}

/// Times before which things go, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    pub now: i64,
    /// Inbox rows of ended runs, outbox rows that are `sent` or `dropped`, or that failed and were told, and approvals
    /// that are settled.
    pub settled_before: i64,
    /// Parts that failed and that nobody was ever told about.
    pub untold_before: i64,
    /// A pending part created before this waited too long: it ends as `dead`, and the rest of its reply with it.
    pub pending_before: i64,
    /// Ephemeral sessions nobody used since, with their logs and runs; one with a run that has not ended stays.
    pub ephemeral_before: i64,
    /// Model calls that began before this.
    pub calls_before: i64,
    pub limit: u32,
}

/// What went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub inbox: u64,
    pub outbox: u64,
    pub idempotency: u64,
    pub sessions: u64,
    pub approvals: u64,
    /// Model calls.
    pub calls: u64,
    /// Periods of budgets, 400 days after they ended.
    pub budgets: u64,
    /// Parts that ended as `dead` because they waited too long.
    pub expired: Vec<OutboxId>,
    /// Some kind reached the limit: there may be more.
    pub more: bool,
}
