//! Lanes, SENDING and SENT.

use async_trait::async_trait;
use sqlx::PgConnection;
use tidegate_protocol::{OutboxId, RunId, SendOutcome, TenantId};
use tidegate_storage::{
    Decided, Lane, NextSend, Outbox, OutboxRow, OutboxState, Owner, Principal, Result, Sending, StoreError,
};

use crate::decide;
use crate::error::TxResult;
use crate::instance::{check_current, is_void, owner_of};
use crate::open::PostgresStore;
use crate::rows::{collect, column, parsed, text, unsigned};
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Outbox for PostgresStore {
    async fn lanes(&self, tenant: &TenantId, limit: u32) -> Result<Vec<Lane>> {
        let rows =
            self.rows(tenant, || sqlx::query(LANES).bind(tenant.as_str()).bind(i64::from(limit))).await?;
        collect(&rows, |row| {
            Ok(Lane {
                name: text(row, "lane")?,
                channel: parsed(row, "channel")?,
                account_id: text(row, "account_id")?,
                due_at: column(row, "retry_at")?,
            })
        })
    }

    async fn claim_send(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        lane: &str,
        ttl_ms: i64,
        now: i64,
    ) -> Result<NextSend> {
        self.write_as(tenant, owner, verb!("claim_send", claims: true), |Open { transaction, .. }| {
            Box::pin(claim_send(transaction, tenant, owner, lane, ttl_ms, now))
        })
        .await
    }

    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState> {
        self.write_as(
            &sending.tenant,
            &sending.owner,
            verb!("settle_send"),
            |Open { transaction, .. }| Box::pin(settle_send(transaction, sending, &outcome, now)),
        )
        .await
    }

    async fn retry_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided> {
        self.write(principal.tenant(), verb!("retry_send"), |Open { transaction, .. }| {
            Box::pin(decide::retry(transaction, principal, id, now))
        })
        .await
    }

    async fn drop_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided> {
        self.write(principal.tenant(), verb!("drop_send"), |Open { transaction, .. }| {
            Box::pin(decide::give_up(transaction, principal, id, now))
        })
        .await
    }

    async fn undelivered(&self, tenant: &TenantId, limit: u32) -> Result<Vec<OutboxRow>> {
        decide::undelivered(self, tenant, limit).await
    }

    async fn note_told(&self, tenant: &TenantId, ids: &[OutboxId], now: i64) -> Result<()> {
        self.write(tenant, verb!("note_told"), |Open { transaction, .. }| {
            Box::pin(decide::note_told(transaction, tenant, ids, now))
        })
        .await
    }
}

/// Goes from lane to lane through the index, however many parts wait in each. A part of an older release that names
/// no channel cannot be sent.
const LANES: &str = "WITH RECURSIVE heads AS (
    (SELECT lane, ord, channel, account_id, retry_at FROM outbox
     WHERE tenant_id = $1 AND state IN ('pending', 'sending') ORDER BY lane, ord LIMIT 1)
    UNION ALL
    SELECT following.* FROM heads CROSS JOIN LATERAL
      (SELECT lane, ord, channel, account_id, retry_at FROM outbox
       WHERE tenant_id = $1 AND state IN ('pending', 'sending') AND lane > heads.lane
       ORDER BY lane, ord LIMIT 1) following
  )
  SELECT lane, channel, account_id, retry_at FROM heads WHERE channel <> '' ORDER BY retry_at, ord LIMIT $2";

/// Whoever adds to a lane or takes its head does so alone, and sees what everybody before did.
pub(crate) async fn lock_lane(transaction: &mut PgConnection, tenant: &str, lane: &str) -> TxResult<()> {
    sqlx::query(
        "SELECT pg_advisory_xact_lock(hashtextextended(format('%s %s %s', current_schema(), $1, $2), 0))",
    )
    .bind(tenant)
    .bind(lane)
    .execute(transaction)
    .await?;
    Ok(())
}

async fn claim_send(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    owner: &Owner,
    lane: &str,
    ttl_ms: i64,
    now: i64,
) -> TxResult<NextSend> {
    check_current(transaction, owner).await?;
    let lane = store(lane);
    lock_lane(transaction, tenant.as_str(), &lane).await?;
    // Not always the head: a part that a person wants sent again comes before the one under way.
    let under_way = sqlx::query(
        "SELECT ord, owner_instance, owner_incarnation FROM outbox
         WHERE tenant_id = $1 AND lane = $2 AND state = 'sending' LIMIT 1 FOR UPDATE",
    )
    .bind(tenant.as_str())
    .bind(&*lane)
    .fetch_optional(&mut *transaction)
    .await?;
    if let Some(row) = under_way {
        let (ord, holder) = (column(&row, "ord")?, owner_of(&row)?);
        if !is_void(transaction, holder.as_ref(), owner, ttl_ms).await? {
            return Ok(NextSend::Busy);
        }
        return start(transaction, tenant, owner, ord, Doubt::MayHaveGoneOut, now).await;
    }
    let head = sqlx::query(
        "SELECT ord, retry_at, channel FROM outbox
         WHERE tenant_id = $1 AND lane = $2 AND state IN ('pending', 'sending') ORDER BY ord LIMIT 1 FOR UPDATE",
    )
    .bind(tenant.as_str())
    .bind(&*lane)
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(row) = head else { return Ok(NextSend::Empty) };
    if column::<&str>(&row, "channel")?.is_empty() {
        return Ok(NextSend::Empty);
    }
    let retry_at: i64 = column(&row, "retry_at")?;
    if retry_at > now {
        return Ok(NextSend::Later(retry_at));
    }
    start(transaction, tenant, owner, column(&row, "ord")?, Doubt::None, now).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    MayHaveGoneOut,
}

/// Call with the row locked.
async fn start(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    owner: &Owner,
    ord: i64,
    doubt: Doubt,
    now: i64,
) -> TxResult<NextSend> {
    let row = sqlx::query(
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, owner_instance = $3,
           owner_incarnation = $4, updated_at = $5
         WHERE tenant_id = $1 AND ord = $2
         RETURNING id, run_id, channel, account_id, lane, body, attempt",
    )
    .bind(tenant.as_str())
    .bind(ord)
    .bind(owner.instance.to_string())
    .bind(owner.incarnation)
    .bind(now)
    .fetch_one(transaction)
    .await?;
    Ok(NextSend::Granted(Sending {
        tenant: tenant.clone(),
        id: parsed(&row, "id")?,
        run: parsed(&row, "run_id")?,
        channel: parsed(&row, "channel")?,
        account_id: text(&row, "account_id")?,
        lane: text(&row, "lane")?,
        body: text(&row, "body")?,
        owner: *owner,
        attempt: unsigned(&row, "attempt")?,
        doubtful: doubt == Doubt::MayHaveGoneOut,
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
    let settled = sqlx::query(
        "UPDATE outbox SET state = $6, retry_at = $7, remote_id = $8, reason = $9, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = $10
         WHERE tenant_id = $1 AND id = $2 AND state = 'sending' AND owner_instance = $3
           AND owner_incarnation = $4 AND attempt = $5
         RETURNING part",
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
    .fetch_optional(&mut *transaction)
    .await?;
    let row = settled.ok_or(StoreError::StaleFence)?;
    if matches!(state, OutboxState::Dead | OutboxState::Unknown) {
        drop_rest(transaction, &sending.tenant, sending.run, column(&row, "part")?, now).await?;
    }
    Ok(state)
}

/// A reply with a hole in it is worse than its beginning: what would come after the part stays here.
pub(crate) async fn drop_rest(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
    part: i64,
    now: i64,
) -> TxResult<u64> {
    let dropped = sqlx::query(
        "UPDATE outbox SET state = 'dropped', reason = 'an earlier part did not go out', updated_at = $4
         WHERE tenant_id = $1 AND run_id = $2 AND part > $3 AND state = 'pending'",
    )
    .bind(tenant.as_str())
    .bind(run.to_string())
    .bind(part)
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(dropped.rows_affected())
}
