//! SENDING and SENT.

use async_trait::async_trait;
use sqlx::PgConnection;
use tidegate_protocol::{RunId, SendOutcome, TenantId};
use tidegate_storage::{Outbox, OutboxState, Owner, Result, Sending, StoreError};

use crate::error::TxResult;
use crate::instance::check_current;
use crate::open::PostgresStore;
use crate::rows::{parsed, text, unsigned};
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Outbox for PostgresStore {
    async fn claim_send(&self, tenant: &TenantId, owner: &Owner, now: i64) -> Result<Option<Sending>> {
        self.write(tenant, verb!("claim_send"), |Open { transaction, .. }| {
            Box::pin(claim_send(transaction, tenant, owner, now))
        })
        .await
    }

    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState> {
        self.write(&sending.tenant, verb!("settle_send"), |Open { transaction, .. }| {
            Box::pin(settle_send(transaction, sending, &outcome, now))
        })
        .await
    }
}

/// Lanes whose head may go out, oldest first. Goes from lane to lane through the index, so that a long lane costs no
/// more than a short one.
const READY_HEADS: &str = "WITH RECURSIVE heads AS (
    (SELECT lane, ord, state, retry_at FROM outbox
     WHERE tenant_id = $1 AND state IN ('pending', 'sending') ORDER BY lane, ord LIMIT 1)
    UNION ALL
    SELECT following.* FROM heads CROSS JOIN LATERAL
      (SELECT lane, ord, state, retry_at FROM outbox
       WHERE tenant_id = $1 AND state IN ('pending', 'sending') AND lane > heads.lane
       ORDER BY lane, ord LIMIT 1) following
  )
  SELECT ord FROM heads WHERE state = 'pending' AND retry_at <= $2 ORDER BY ord LIMIT 64";

/// Locks one of them. A row that somebody else is taking right now is passed over, and one that somebody else took
/// since it was listed is no longer pending; both leave the lane to them.
const LOCK_ONE: &str = "SELECT ord FROM outbox
  WHERE tenant_id = $1 AND ord = ANY($2) AND state = 'pending' AND retry_at <= $3
  ORDER BY ord LIMIT 1 FOR UPDATE SKIP LOCKED";

async fn claim_send(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    owner: &Owner,
    now: i64,
) -> TxResult<Option<Sending>> {
    check_current(transaction, owner).await?;
    let heads: Vec<i64> =
        sqlx::query_scalar(READY_HEADS).bind(tenant.as_str()).bind(now).fetch_all(&mut *transaction).await?;
    if heads.is_empty() {
        return Ok(None);
    }
    let locked: Option<i64> = sqlx::query_scalar(LOCK_ONE)
        .bind(tenant.as_str())
        .bind(heads)
        .bind(now)
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(ord) = locked else { return Ok(None) };
    let row = sqlx::query(
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, owner_instance = $3,
           owner_incarnation = $4, updated_at = $5
         WHERE tenant_id = $1 AND ord = $2
           AND EXISTS (SELECT 1 FROM instances WHERE id = $3 AND incarnation = $4)
         RETURNING id, run_id, lane, body, attempt",
    )
    .bind(tenant.as_str())
    .bind(ord)
    .bind(owner.instance.to_string())
    .bind(owner.incarnation)
    .bind(now)
    .fetch_optional(transaction)
    .await?
    // The row is ours; so it is the owner that is void.
    .ok_or(StoreError::StaleFence)?;
    Ok(Some(Sending {
        tenant: tenant.clone(),
        id: parsed(&row, "id")?,
        run: parsed(&row, "run_id")?,
        lane: text(&row, "lane")?,
        body: text(&row, "body")?,
        owner: *owner,
        attempt: unsigned(&row, "attempt")?,
    }))
}

async fn settle_send(
    transaction: &mut PgConnection,
    sending: &Sending,
    outcome: &SendOutcome,
    now: i64,
) -> TxResult<OutboxState> {
    let state = OutboxState::after(outcome);
    let (retry_at, remote_id, reason) = match outcome {
        SendOutcome::Sent { id } => (0, Some(id), None),
        SendOutcome::NotSent { retry_at, reason } => (*retry_at, None, Some(reason)),
        SendOutcome::Rejected { reason } | SendOutcome::Unknown { reason } => (0, None, Some(reason)),
    };
    let touched = sqlx::query(
        "UPDATE outbox SET state = $6, retry_at = $7, remote_id = $8, reason = $9, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = $10
         WHERE tenant_id = $1 AND id = $2 AND state = 'sending' AND owner_instance = $3
           AND owner_incarnation = $4 AND attempt = $5",
    )
    .bind(sending.tenant.as_str())
    .bind(sending.id.to_string())
    .bind(sending.owner.instance.to_string())
    .bind(sending.owner.incarnation)
    .bind(i64::from(sending.attempt))
    .bind(state.as_str())
    .bind(retry_at)
    .bind(remote_id.map(|id| store(id)))
    .bind(reason.map(|reason| store(reason)))
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    if touched.rows_affected() == 0 {
        return Err(StoreError::StaleFence.into());
    }
    if matches!(state, OutboxState::Dead | OutboxState::Unknown) {
        drop_rest(transaction, sending.tenant.as_str(), sending.run, now).await?;
    }
    Ok(state)
}

/// A reply with a hole in it is worse than its beginning: the parts that have not gone out stay.
pub(crate) async fn drop_rest(
    transaction: &mut PgConnection,
    tenant: &str,
    run: RunId,
    now: i64,
) -> TxResult<()> {
    sqlx::query(
        "UPDATE outbox SET state = 'dropped', reason = 'an earlier part did not go out', updated_at = $3
         WHERE tenant_id = $1 AND run_id = $2 AND state = 'pending'",
    )
    .bind(tenant)
    .bind(run.to_string())
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(())
}
