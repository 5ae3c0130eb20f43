//! The ledger of model calls: what was used, when, by whom, and what it cost.

use async_trait::async_trait;
use tidegate_protocol::{AgentId, CallId, RunId, SessionKey, TenantId, Usage};

use crate::error::Result;

#[async_trait]
pub trait Ledger: Send + Sync {
    /// Writes down calls outside a run's FINISH: those of no run, and those of a run that was ended from outside. A
    /// call that is there already is not counted again. What a run used takes the place of what its budgets assumed;
    /// a run that does not exist (any more) changes no budget.
    async fn meter(&self, tenant: &TenantId, meter: Meter) -> Result<()>;
}

#[derive(Debug, Clone)]
pub struct Meter {
    /// The run that made the calls.
    pub run: Option<RunId>,
    pub calls: Vec<NewCall>,
    pub now: i64,
}

/// One model call to write down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    pub id: CallId,
    pub agent: AgentId,
    pub session: Option<SessionKey>,
    /// `turn`, `test`, `embedding`, …
    pub purpose: String,
    pub provider: String,
    pub model: String,
    pub profile_id: Option<String>,
    pub usage: Usage,
    /// The provider did not say; the numbers are a guess.
    pub estimated: bool,
    /// `ok`, or the class of its failure.
    pub outcome: String,
    pub started_at: i64,
    /// `2026-11-16`, in the tenant's own zone.
    pub day: String,
}

/// Which calls to add up.
#[derive(Debug, Clone)]
pub struct UsageFilter {
    /// From then on.
    pub since_ms: i64,
    /// Before then.
    pub until_ms: i64,
    pub agent: Option<AgentId>,
    pub session: Option<SessionKey>,
    pub group: UsageGroup,
    /// Groups at most: the newest days, or the dearest of anything else.
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGroup {
    Day,
    /// `provider/model`.
    Model,
    /// By session key; calls outside any are one group without a name.
    Session,
    Agent,
}

/// The calls of a group, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    pub group: String,
    pub calls: u64,
    pub usage: Usage,
    /// Calls whose numbers are a guess.
    pub estimated_calls: u64,
}

impl UsageGroup {
    /// What the rows are grouped by, in the SQL that both backends speak.
    pub fn column(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "provider || '/' || model",
            Self::Session => "coalesce(session_key, '')",
            Self::Agent => "agent",
        }
    }

    /// The order in which the limit cuts; days are turned round afterwards.
    pub fn order(self) -> &'static str {
        match self {
            Self::Day => "group_name DESC",
            Self::Model | Self::Session | Self::Agent => {
                "cost DESC, token_input + token_output + token_cache_read + token_cache_write DESC, group_name"
            }
        }
    }
}
