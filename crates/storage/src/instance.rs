//! Processes and what their deaths leave behind.

use async_trait::async_trait;
use tidegate_protocol::{InstanceId, OutboxId, RunId, RunState, SessionKey};

use crate::error::Result;
use crate::lease::Owner;

#[async_trait]
pub trait Instances: Send + Sync {
    /// Begins a new incarnation of the instance; every earlier one is void from this commit on:
    /// it claims nothing and writes nothing any more.
    async fn enlist(&self, instance: InstanceId, now: i64) -> Result<Owner>;

    /// Says that the owner lives. `StaleFence` when a newer incarnation exists: then it must stop.
    async fn heartbeat(&self, owner: &Owner, now: i64) -> Result<()>;

    /// Settles what earlier incarnations of this instance held: fences go up, then a run whose caller is gone ends as
    /// interrupted, any other is queued again with one more attempt until the third crash ends it as poison; tools
    /// without a result become interrupted; sends without an answer become unknown. Only runs that were settled are
    /// reported; one in a state of a newer release is left alone.
    async fn recover(&self, owner: &Owner, now: i64) -> Result<Recovered>;
}

/// What recovery did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    pub runs: Vec<SettledRun>,
    pub unknown_sends: Vec<OutboxId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledRun {
    pub run: RunId,
    pub key: SessionKey,
    /// `Interrupted`, `Queued` or `Failed`.
    pub state: RunState,
}
