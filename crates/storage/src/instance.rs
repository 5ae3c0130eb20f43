//! Processes and what their deaths leave behind.

use async_trait::async_trait;
use tidegate_protocol::{
    ErrorBody, ErrorCode, InstanceId, OutboxId, ReplyTarget, RunId, RunState, SessionKey,
};

use crate::POISON_CRASHES;
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

/// How a run whose process died ends; `None` when it is tried again. A reply target that this release cannot read is
/// somebody to answer.
pub fn after_crash(reply: Option<&ReplyTarget>, attempt: u32) -> Option<(RunState, ErrorBody)> {
    if reply == Some(&ReplyTarget::Caller) {
        let error = ErrorBody::new(ErrorCode::Interrupted, "its process ended before it could answer");
        return Some((RunState::Interrupted, error));
    }
    if attempt >= POISON_CRASHES {
        let error = ErrorBody::new(ErrorCode::Poison, format!("crashed {attempt} times; not tried again"));
        return Some((RunState::Failed, error));
    }
    None
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::OutboundTarget;

    use super::*;

    #[test]
    fn a_run_is_tried_again_until_its_third_crash_unless_its_caller_is_gone() {
        let channel = ReplyTarget::Channel {
            channel: "local".parse().unwrap(),
            account_id: "a".into(),
            target: OutboundTarget { peer_id: "p".into(), thread_id: None },
        };
        let ends = |reply: Option<&ReplyTarget>, attempt| {
            after_crash(reply, attempt).map(|(state, error)| (state, error.code))
        };
        let interrupted = Some((RunState::Interrupted, ErrorCode::Interrupted));
        assert_eq!(ends(Some(&ReplyTarget::Caller), 1), interrupted);
        assert_eq!(ends(Some(&channel), POISON_CRASHES - 1), None);
        assert_eq!(ends(Some(&channel), POISON_CRASHES), Some((RunState::Failed, ErrorCode::Poison)));
        assert_eq!(ends(None, 1), None);
    }
}
