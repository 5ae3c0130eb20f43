//! Ownership: who may write to a session, and the number that proves it.

use tidegate_policy::{BudgetExcess, BudgetRefusal};
use tidegate_protocol::{InstanceId, RunId, SessionId, SessionKey};

/// A process that may hold sessions: an installation and the count of its starts.
/// A new incarnation voids its predecessor at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    pub instance: InstanceId,
    pub incarnation: i64,
}

/// Goes up with every claim and every abort of a session. A write under an older fence never happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub i64);

/// The right to work on one run of one session. Every write of the run shows it, and fails once the fence moved on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub key: SessionKey,
    pub run: RunId,
    /// The log this run writes to. It becomes the key's current one when the run completes.
    pub session: SessionId,
    /// The log's short name, if it was given one; it names the transcript file.
    pub alias: Option<String>,
    pub owner: Owner,
    pub fence: Fence,
    /// 1 for the first try; a restart that resumes the run adds one.
    pub attempt: u32,
    /// How long earlier attempts worked on it, as far as their [steps](crate::Step::worked_ms) told.
    pub worked_ms: u64,
    /// The run may not begin: it is only to be ended, with this as the reason.
    pub refusal: Option<BudgetRefusal>,
    /// Soft limits that were exceeded when it was accepted.
    pub over_budget: Vec<BudgetExcess>,
}
