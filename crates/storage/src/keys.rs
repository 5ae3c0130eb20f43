//! Keys of callers whose request was no run: what it was answered, for as long as the key stands for it.

use async_trait::async_trait;
use tidegate_protocol::TenantId;

use crate::accept::Idempotency;
use crate::error::Result;

#[async_trait]
pub trait Keys: Send + Sync {
    /// What the key's request was answered, unless its time is over. `IdempotencyConflict` when the key stands for
    /// another request.
    async fn answered(&self, tenant: &TenantId, key: &Idempotency, now: i64) -> Result<Option<String>>;

    /// Keeps an answer until the key's time is over. The first one stays: whoever comes later is told that one, or
    /// `IdempotencyConflict`.
    async fn keep_answer(
        &self,
        tenant: &TenantId,
        key: Idempotency,
        answer: String,
        now: i64,
    ) -> Result<String>;
}
