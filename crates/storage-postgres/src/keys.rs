//! Keys of callers and what they were answered, on Postgres.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::TenantId;
use tidegate_storage::{Idempotency, Keys, Result, StoreError};

use crate::error::TxResult;
use crate::open::PostgresStore;
use crate::rows::{column, text_or_none};
use crate::text::store;
use crate::transaction::{Open, verb};

const KNOWN: &str = "SELECT fingerprint, answer FROM idempotency
   WHERE tenant_id = $1 AND key_hash = $2 AND expires_at > $3";

#[async_trait]
impl Keys for PostgresStore {
    async fn answered(&self, tenant: &TenantId, key: &Idempotency, now: i64) -> Result<Option<String>> {
        let rows = self.rows(tenant, || sqlx::query(KNOWN).bind(tenant.as_str()).bind(&key.key).bind(now));
        rows.await?.first().map(|row| known(row, key)).transpose()
    }

    async fn keep_answer(
        &self,
        tenant: &TenantId,
        key: Idempotency,
        answer: String,
        now: i64,
    ) -> Result<String> {
        let (key, answer) = (&key, answer.as_str());
        self.write(tenant, verb!("keep_answer"), |Open { transaction, .. }| {
            Box::pin(keep(transaction, tenant, key, answer, now))
        })
        .await
    }
}

/// Whoever comes second with the same key waits here until the first one committed or gave up.
async fn keep(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    key: &Idempotency,
    answer: &str,
    now: i64,
) -> TxResult<String> {
    let kept = sqlx::query(
        "INSERT INTO idempotency (tenant_id, key_hash, fingerprint, run_id, created_at, expires_at, answer)
         VALUES ($1, $2, $3, '', $4, $5, $6)
         ON CONFLICT (tenant_id, key_hash) DO UPDATE SET
           fingerprint = excluded.fingerprint, run_id = excluded.run_id, created_at = excluded.created_at,
           expires_at = excluded.expires_at, answer = excluded.answer
         WHERE idempotency.expires_at <= $4",
    )
    .bind(tenant.as_str())
    .bind(&key.key)
    .bind(&key.fingerprint)
    .bind(now)
    .bind(key.expires_at)
    .bind(store(answer))
    .execute(&mut *transaction)
    .await?;
    if kept.rows_affected() == 1 {
        return Ok(answer.to_owned());
    }
    let row =
        sqlx::query(KNOWN).bind(tenant.as_str()).bind(&key.key).bind(now).fetch_one(transaction).await?;
    Ok(known(&row, key)?)
}

fn known(row: &PgRow, key: &Idempotency) -> Result<String> {
    let answer = text_or_none(row, "answer")?;
    match answer {
        Some(answer) if column::<&str>(row, "fingerprint")? == key.fingerprint => Ok(answer),
        _ => Err(StoreError::IdempotencyConflict),
    }
}
