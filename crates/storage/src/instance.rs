//! Processes and what their deaths leave behind.

use async_trait::async_trait;
use tidegate_protocol::{ErrorBody, ErrorCode, InstanceId, ReplyTarget, RunId, RunState, SessionKey};

use crate::error::Result;
use crate::lease::Owner;

#[async_trait]
pub trait Instances: Send + Sync {
    /// Begins a new incarnation of the instance; every earlier one is void from this commit on:
    /// it claims nothing and writes nothing any more.
    async fn enlist(&self, instance: InstanceId, now: i64) -> Result<Owner>;

    /// Says that the owner lives. `StaleFence` when a newer incarnation exists: then it must stop.
    async fn heartbeat(&self, owner: &Owner, now: i64) -> Result<()>;

    /// Settles the runs that earlier incarnations of this instance held or had accepted: fences go up, then a run
    /// whose caller is gone ends as interrupted, also when it was still queued; any other is queued again with one
    /// more attempt; tools without a result become interrupted. Only runs that were settled are reported; one in a
    /// state of a newer release is left alone. What they were sending stays: whoever claims the lane next is told that
    /// the part may have gone out.
    async fn recover(&self, owner: &Owner, now: i64) -> Result<Recovered>;
}

/// What recovery did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    pub runs: Vec<SettledRun>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledRun {
    pub run: RunId,
    pub key: SessionKey,
    /// `Interrupted` or `Queued`.
    pub state: RunState,
}

/// How a run whose process died ends; `None` when it is tried again. A reply target that this release cannot read is
/// somebody to answer. That a run crashed too often is for the engine to find: its end has to be told.
pub fn after_crash(reply: Option<&ReplyTarget>) -> Option<(RunState, ErrorBody)> {
    if reply != Some(&ReplyTarget::Caller) {
        return None;
    }
    let error = ErrorBody::new(ErrorCode::Interrupted, "its process ended before it could answer");
    Some((RunState::Interrupted, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_tried_again_unless_its_caller_is_gone() {
        let ends = |reply: Option<&ReplyTarget>| after_crash(reply).map(|(state, error)| (state, error.code));
        let interrupted = Some((RunState::Interrupted, ErrorCode::Interrupted));
        assert_eq!(ends(Some(&ReplyTarget::Caller)), interrupted);
        assert_eq!(ends(Some(&ReplyTarget::Session)), None);
        assert_eq!(ends(None), None);
    }
}
