//! How the loop sees tools.

use async_trait::async_trait;
use tidegate_models::ToolSpec;
use tidegate_protocol::{ToolCall, ToolResult};

/// The tools of one run, under policy.
#[async_trait]
pub trait ToolBox: Send + Sync {
    /// What a model is shown, in an order that never changes: a changed list empties a provider's cache.
    fn specs(&self) -> &[ToolSpec];

    /// Whether the run may be asked for its notes: also where an ordinary call may not write any.
    fn takes_notes(&self) -> bool;

    /// Decides about a call that writes such a note, and about no other.
    async fn permit_note(&self, call: ToolCall) -> Result<Verdict, ToolBoxError>;

    /// Whether a tool only looks. Such calls may run side by side, and once more after a crash.
    fn only_looks(&self, tool: &str) -> bool;

    /// Decides about a call. This may take as long as a person needs to answer. Nothing has run yet.
    async fn permit(&self, call: ToolCall) -> Result<Verdict, ToolBoxError>;

    /// What is known about a call that an earlier attempt began at that time and did not see the end of. Nothing runs.
    async fn recall(&self, _call: &ToolCall, _begun_at: i64) -> Result<Recalled, ToolBoxError> {
        Ok(Recalled::Unknown)
    }
}

/// What can be found out about a call that was cut off.
#[derive(Debug, Clone, PartialEq)]
pub enum Recalled {
    /// It may have taken effect, or part of it.
    Unknown,
    /// It took no effect, for certain: it may run as if it had never begun.
    Nothing,
    /// It took effect, and this came of it.
    Done(ToolResult),
}

/// What was decided.
pub enum Verdict {
    /// It may run. What it does is not undone by dropping it half-way.
    Ready(Box<dyn ReadyCall>),
    /// There is nothing to run: it was refused, could not be prepared, or its result is known already.
    Answered(ToolResult),
}

/// A call that may run, once.
#[async_trait]
pub trait ReadyCall: Send {
    /// Nothing will happen: what would have been done is recorded and told.
    fn is_shadow(&self) -> bool {
        false
    }

    /// Runs it. What comes meanwhile is told by whoever made this.
    async fn run(self: Box<Self>) -> Result<ToolResult, ToolBoxError>;
}

/// The run cannot go on: its store failed or its process ends. What a tool itself gets wrong is a result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolBoxError {
    #[error(transparent)]
    Store(#[from] tidegate_storage::StoreError),
    #[error("the process is about to end")]
    Closing,
    #[error("{0}")]
    Failed(String),
}
