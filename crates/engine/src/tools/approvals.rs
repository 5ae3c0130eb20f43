//! The approvals service: one set of verbs for every surface on which somebody can answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_policy::Principal;
use tidegate_policy::approval::{AllowMatch, AllowRule, Answer, Approval, NewAllowRule};
use tidegate_protocol::{AllowRuleId, ApprovalId, Scope};
use tidegate_runtime::new_id;
use tidegate_storage::{ApprovalFilter, DecideApproval, DecidedApproval};
use tokio::sync::Notify;

use crate::error::EngineError;
use crate::events::EngineEvent;
use crate::start::{Core, Engine};

/// What somebody says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answering {
    AllowOnce,
    /// And save a rule: the one that was shown, or with only this many of a command's words fixed.
    AllowAlways {
        prefix: Option<u32>,
    },
    Deny {
        reason: Option<String>,
    },
}

impl Engine {
    /// Whether a tool that is there has an argument of this name.
    pub fn takes_argument(&self, tool: &str, argument: &str) -> bool {
        let registry = self.core.toolbox.now();
        let found = registry.find(tool);
        found.is_some_and(|tool| tool.spec().input_schema["properties"].get(argument).is_some())
    }

    /// The newest first.
    pub async fn approvals(&self, filter: ApprovalFilter) -> Result<Vec<Approval>, EngineError> {
        Ok(self.core.store.approvals(&self.core.tenant, filter).await?)
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, EngineError> {
        Ok(self.core.store.approval(&self.core.tenant, id).await?)
    }

    /// Answers a question. The first answer counts, whoever gives it on whichever surface.
    pub async fn answer(
        &self,
        principal: &Principal,
        id: ApprovalId,
        answering: Answering,
    ) -> Result<DecidedApproval, EngineError> {
        let (core, principal) = (Arc::clone(&self.core), principal.clone());
        let answer = async move { core.answer(principal, id, answering).await };
        self.core.unbroken("answer", answer).await?
    }

    /// Saved rules, the newest first: those of one agent, or all.
    pub async fn allow_rules(&self, scope: Option<&Scope>) -> Result<Vec<AllowRule>, EngineError> {
        Ok(self.core.store.allow_rules(&self.core.tenant, scope).await?)
    }

    pub(super) async fn save_allow_rule(
        &self,
        principal: &Principal,
        scope: Scope,
        tool: String,
        matches: AllowMatch,
    ) -> Result<AllowRule, EngineError> {
        let core = &self.core;
        let rule = AllowRule {
            id: new_id(core.clock.as_ref())?,
            scope,
            tool,
            matches,
            created_by: principal.actor().to_owned(),
            approval: None,
            created_at: core.clock.now_ms(),
            last_used_at: None,
        };
        core.store.save_allow_rule(principal, rule.clone()).await.inspect_err(|error| core.watch(error))?;
        core.unsealed.notify_one();
        Ok(rule)
    }

    /// Whether there was such a rule.
    pub async fn remove_allow_rule(
        &self,
        principal: &Principal,
        id: AllowRuleId,
    ) -> Result<bool, EngineError> {
        let core = &self.core;
        let removed = core.store.remove_allow_rule(principal, id, core.clock.now_ms()).await;
        let removed = removed.inspect_err(|error| core.watch(error))?;
        core.unsealed.notify_one();
        Ok(removed)
    }
}

impl Core {
    async fn answer(
        &self,
        by: Principal,
        id: ApprovalId,
        answering: Answering,
    ) -> Result<DecidedApproval, EngineError> {
        let Some(asked) = self.store.approval(&self.tenant, id).await? else {
            return Ok(DecidedApproval::NotFound);
        };
        let answer = match answering {
            Answering::AllowOnce => Answer::AllowOnce,
            Answering::Deny { reason } => Answer::Deny { reason },
            Answering::AllowAlways { prefix } => match asked.question.rule_for(prefix) {
                Some(matches) => {
                    Answer::AllowAlways(NewAllowRule { id: new_id(self.clock.as_ref())?, matches })
                }
                None => return Ok(DecidedApproval::CannotBeSaved),
            },
        };
        let own = self.settings.own_calls();
        let decide = DecideApproval { id, by, answer, own, now: self.clock.now_ms() };
        let decided = self.store.decide_approval(decide).await.inspect_err(|error| self.watch(error))?;
        if let DecidedApproval::Won(approval) | DecidedApproval::Settled(approval) = &decided {
            self.settled(std::slice::from_ref(approval));
        }
        Ok(decided)
    }

    /// Ends questions whose time has passed, and tells whoever waits.
    pub(crate) async fn expire(&self, now: i64, limit: u32) -> Result<(), EngineError> {
        let expired = self.store.expire_approvals(&self.tenant, now, limit).await;
        self.settled(&expired.inspect_err(|error| self.watch(error))?);
        Ok(())
    }

    /// Tells whoever waits, and whoever watches, how questions ended.
    pub(super) fn settled(&self, approvals: &[Approval]) {
        for approval in approvals {
            self.watchers.wake(approval.id);
            self.bus.publish(|| EngineEvent::Approval(Box::new(approval.clone())));
        }
        if !approvals.is_empty() {
            self.unsealed.notify_one();
        }
    }
}

/// Who waits here for which answer.
#[derive(Default)]
pub(crate) struct Watchers {
    waiting: Arc<Mutex<HashMap<ApprovalId, Arc<Notify>>>>,
}

impl Watchers {
    pub(crate) fn watch(&self, id: ApprovalId) -> Watcher {
        let notify = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(id, Arc::clone(&notify));
        Watcher { id, notify, waiting: Arc::clone(&self.waiting) }
    }

    fn wake(&self, id: ApprovalId) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = waiting.get(&id) {
            notify.notify_one();
        }
    }
}

/// Waits for one answer.
pub(crate) struct Watcher {
    id: ApprovalId,
    notify: Arc<Notify>,
    waiting: Arc<Mutex<HashMap<ApprovalId, Arc<Notify>>>>,
}

impl Watcher {
    pub(crate) async fn changed(&mut self) {
        self.notify.notified().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
