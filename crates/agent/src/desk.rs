//! What the loop asks of whoever runs it.

use async_trait::async_trait;
use tidegate_protocol::{ErrorBody, JoinMode, RunEventBody};
use tidegate_storage::{NewCall, NewPart, StoreError};

/// Whether there is enough for one more call.
#[derive(Debug, Clone, PartialEq)]
pub enum Afford {
    Whole,
    /// Only for an answer of so many tokens.
    Short(u32),
    No(ErrorBody),
}

/// The run's place in the engine.
#[async_trait]
pub trait Desk: Send + Sync {
    /// Tells whoever listens. Provisional until the run's end is committed.
    fn emit(&self, event: RunEventBody);

    /// Says what the calls since the last time were for: `turn`, `compaction`, `flush`.
    fn charge(&self, purpose: &'static str);

    /// Charged calls that are in no commit yet. The same ones again until [`booked`](Desk::booked) is called.
    fn calls(&self) -> Vec<NewCall>;

    /// A commit with those calls has returned.
    fn booked(&self, calls: &[NewCall]);

    /// Whether somebody limits what the run may use.
    fn is_limited(&self) -> bool;

    /// Holds what one more call may use that sends so many tokens. Every call before it has to be in a commit.
    async fn afford(&self, tokens: u64) -> Result<Afford, StoreError>;

    /// Whether somebody wrote to the session since, in a way that this run should read. A hint: only the store knows.
    fn is_joined(&self, mode: JoinMode) -> bool;

    /// What was written so far is about to be read.
    fn catches_up(&self);

    /// What a text becomes on its way to whoever asked, if it is sent before the run is over.
    async fn parts(&self, text: &str) -> Vec<NewPart>;
}
