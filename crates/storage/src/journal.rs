//! The run's own verbs: INTENT before a tool, RESULT after it, and the context it reads.

use async_trait::async_trait;
use serde_json::Value;
use tidegate_protocol::{Entry, EntryBody, EntryId, ToolRunId, ToolRunState};

use crate::error::Result;
use crate::lease::Lease;

#[async_trait]
pub trait Journal: Send + Sync {
    /// INTENT: committed before the tool starts. The run's input enters the log with its first committed step.
    async fn intend(&self, lease: &Lease, intent: Intent) -> Result<()>;

    /// RESULT: the tool's outcome, and the next INTENT in the same commit if there is one.
    async fn result(&self, lease: &Lease, outcome: ToolOutcome, next: Option<Intent>) -> Result<()>;

    /// The newest `limit` entries of the lease's log, oldest first. Costs the same in a short and a long log.
    async fn context(&self, lease: &Lease, limit: u32) -> Result<Vec<Entry>>;
}

/// A line to append; its position and parent follow from the log.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub id: EntryId,
    pub body: EntryBody,
}

#[derive(Debug, Clone)]
pub struct Intent {
    pub entries: Vec<NewEntry>,
    pub tool_run: NewToolRun,
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct NewToolRun {
    pub id: ToolRunId,
    /// The model's id of the call.
    pub call_id: String,
    pub tool_name: String,
    pub args: Value,
}

#[derive(Debug, Clone)]
pub struct ToolOutcome {
    pub tool_run: ToolRunId,
    /// `Succeeded` or `Failed`.
    pub state: ToolRunState,
    pub result: Value,
    pub entries: Vec<NewEntry>,
    pub now: i64,
}
