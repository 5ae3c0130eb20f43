//! How the loop sees tools.

use async_trait::async_trait;
use tidegate_models::ToolSpec;
use tidegate_protocol::{ToolCall, ToolResult};

/// The tools of one run, under policy.
#[async_trait]
pub trait ToolBox: Send + Sync {
    /// What a model is shown, in an order that never changes: a changed list empties a provider's cache.
    fn specs(&self) -> &[ToolSpec];

    /// The tool that appends to the agent's memory, if the run may be asked for its notes: also where an ordinary call
    /// may not use it.
    fn memory(&self) -> Option<&ToolSpec>;

    /// Decides about a call of that tool which was asked for, and about no other.
    async fn permit_note(&self, call: ToolCall) -> Result<Verdict, ToolBoxError>;

    /// Whether a tool only looks. Such calls may run side by side, and once more after a crash.
    fn only_looks(&self, tool: &str) -> bool;

    /// Decides about a call. This may take as long as a person needs to answer. Nothing has run yet.
    async fn permit(&self, call: ToolCall) -> Result<Verdict, ToolBoxError>;
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
