//! Callers' keys for requests that are no runs: the same key again is told what it was told before. Runs keep theirs with
//! themselves.

use tidegate_policy::Principal;
use tidegate_storage::{AuditEvent, Idempotency};

use crate::error::EngineError;
use crate::start::Engine;

impl Engine {
    /// What the request of a key was answered. An error when the key stands for another request.
    pub async fn answered(&self, key: &str, request: &[u8], now: i64) -> Result<Option<String>, EngineError> {
        let key = Idempotency::new(key, request, self.core.remembered_until(now));
        Ok(self.core.store.answered(&self.core.tenant, &key, now).await?)
    }

    /// Keeps what a request was answered; answers what stands from now on.
    pub async fn keep_answer(
        &self,
        key: &str,
        request: &[u8],
        answer: String,
        now: i64,
    ) -> Result<String, EngineError> {
        let key = Idempotency::new(key, request, self.core.remembered_until(now));
        let kept = self.core.store.keep_answer(&self.core.tenant, key, answer, now).await;
        Ok(kept.inspect_err(|error| self.core.watch(error))?)
    }

    /// Puts on record what somebody did that no other verb records.
    pub async fn record(&self, principal: &Principal, event: AuditEvent) -> Result<(), EngineError> {
        let recorded = self.core.store.audit_event(principal, event).await;
        recorded.inspect_err(|error| self.core.watch(error))?;
        self.core.unsealed.notify_one();
        Ok(())
    }
}
