//! Putting a question, and waiting for its one answer.

use std::time::Duration;

use tidegate_policy::Prepared;
use tidegate_policy::approval::{AllowMatch, Approval, ApprovalState, Question, view};
use tidegate_policy::tools::Decision;
use tidegate_protocol::ApprovalId;
use tidegate_protocol::api::ToolEvent;
use tidegate_runtime::new_id;
use tidegate_storage::{ApprovalFilter, Cancelled};

use super::invoke::Calling;
use crate::error::EngineError;
use crate::events::EngineEvent;

/// How often the store is asked: another process may have answered.
const LOOK: Duration = Duration::from_millis(500);
/// Questions whose time has passed that are ended at once.
const EXPIRE: u32 = 100;
/// Open questions of one run that are looked through.
const OPEN: u32 = 100;

/// How a question ended.
pub(super) enum Answered {
    Yes,
    No {
        reason: Option<String>,
    },
    /// Its time passed.
    Nothing,
    /// Whoever made the call no longer waits.
    Cancelled,
}

impl Calling {
    /// Puts the question and waits. It is durable before anybody is told about it.
    pub(super) async fn question(
        &self,
        prepared: &Prepared,
        decision: &Decision,
    ) -> Result<(ApprovalId, Answered), EngineError> {
        let approval = match self.asked_before(prepared).await? {
            Some(approval) => approval,
            None => self.put(prepared, decision).await?,
        };
        (self.tell)(ToolEvent::Approval { approval: view(&approval) });
        match &self.pace {
            Some(pace) => pace.wait(self.until_answered(&approval)).await,
            None => self.until_answered(&approval).await,
        }
    }

    /// The question of an earlier attempt of the same run about the same call: nobody is asked twice.
    async fn asked_before(&self, prepared: &Prepared) -> Result<Option<Approval>, EngineError> {
        let Some(run) = self.invoke.run else { return Ok(None) };
        let states = vec![ApprovalState::Pending, ApprovalState::Approved];
        let filter = ApprovalFilter { states, run: Some(run), limit: OPEN };
        let now = self.core.clock.now_ms();
        let open = self.core.store.approvals(&self.core.tenant, filter).await?;
        Ok(open.into_iter().find(|open| {
            open.call_id == self.invoke.call.id && open.digest == *prepared.digest() && now < open.expires_at
        }))
    }

    async fn put(&self, prepared: &Prepared, decision: &Decision) -> Result<Approval, EngineError> {
        let core = &self.core;
        let approval = self.approval(new_id(core.clock.as_ref())?, prepared, decision);
        core.store.request_approval(approval.clone()).await.inspect_err(|error| core.watch(error))?;
        core.unsealed.notify_one();
        core.bus.publish(|| EngineEvent::Approval(Box::new(approval.clone())));
        Ok(approval)
    }

    async fn until_answered(&self, approval: &Approval) -> Result<(ApprovalId, Answered), EngineError> {
        let (core, id) = (&self.core, approval.id);
        let mut watcher = core.watchers.watch(id);
        // Somebody may have answered before there was a watcher.
        let mut first = true;
        loop {
            if std::mem::take(&mut first)
                && let Some(answered) =
                    core.store.approval(&core.tenant, id).await?.as_ref().and_then(answered)
            {
                return Ok((id, answered));
            }
            tokio::select! {
                // A yes for somebody who is gone is not used.
                biased;
                () = self.cancel.cancelled() => return Ok((id, self.withdraw(id).await?)),
                () = core.closing.requested() => return Err(EngineError::Closing),
                () = watcher.changed() => {}
                () = tokio::time::sleep(self.until_look(approval)) => {}
            }
            let now = core.clock.now_ms();
            if now >= approval.expires_at {
                core.expire(now, EXPIRE).await?;
            }
            let Some(stored) = core.store.approval(&core.tenant, id).await? else {
                return Ok((id, Answered::Cancelled));
            };
            if let Some(answered) = answered(&stored) {
                return Ok((id, answered));
            }
        }
    }

    fn approval(&self, id: ApprovalId, prepared: &Prepared, decision: &Decision) -> Approval {
        let core = &self.core;
        let now = core.clock.now_ms();
        let patience = i64::try_from(core.settings.approval_expiry().as_millis()).unwrap_or(i64::MAX);
        let question = Question::of(prepared, decision, AllowMatch::of(prepared));
        Approval::ask(id, self.invoke.run, prepared, question, now, now.saturating_add(patience))
    }

    fn until_look(&self, approval: &Approval) -> Duration {
        let left = approval.expires_at.saturating_sub(self.core.clock.now_ms());
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).clamp(Duration::from_millis(1), LOOK)
    }

    /// Nobody waits for the answer any more. An answer that came first counts all the same: it is not used.
    async fn withdraw(&self, id: ApprovalId) -> Result<Answered, EngineError> {
        let core = &self.core;
        let now = core.clock.now_ms();
        let cancelled = core.store.cancel_approvals(&core.tenant, Cancelled::One(id), now).await;
        core.settled(&cancelled.inspect_err(|error| core.watch(error))?);
        Ok(Answered::Cancelled)
    }
}

fn answered(approval: &Approval) -> Option<Answered> {
    match &approval.state {
        ApprovalState::Pending => None,
        ApprovalState::Approved => Some(Answered::Yes),
        ApprovalState::Denied => {
            let reason = approval.answered.as_ref().and_then(|answered| answered.reason.clone());
            Some(Answered::No { reason })
        }
        ApprovalState::Expired => Some(Answered::Nothing),
        ApprovalState::Cancelled | ApprovalState::Used | ApprovalState::Unknown(_) => {
            Some(Answered::Cancelled)
        }
    }
}
