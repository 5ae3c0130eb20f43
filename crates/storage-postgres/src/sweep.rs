//! Forgetting what has served its time. Rows that somebody is working on are left for the next time.

use async_trait::async_trait;
use sqlx::PgConnection;
use tidegate_protocol::{OutboxId, TenantId};
use tidegate_storage::{Result, Sweep, Sweeper, Swept};

use crate::abort::BELONGINGS;
use crate::budget;
use crate::error::TxResult;
use crate::open::PostgresStore;
use crate::outbox::drop_rest;
use crate::rows::{column, parsed};
use crate::shared::keep_shared;
use crate::transaction::{Open, verb};

#[async_trait]
impl Sweeper for PostgresStore {
    async fn sweep(&self, tenant: &TenantId, sweep: Sweep) -> Result<Swept> {
        let sweep = &sweep;
        self.write(tenant, verb!("sweep"), |Open { transaction, .. }| {
            Box::pin(run(transaction, tenant, sweep))
        })
        .await
    }
}

// An array is read once; a subquery that locks may be run for every row, and then its limit is none.
const INBOX: &str = "DELETE FROM inbox WHERE tenant_id = $1 AND id = ANY(ARRAY(
    SELECT i.id FROM inbox i WHERE i.tenant_id = $1 AND i.created_at < $2 AND NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.tenant_id = $1 AND r.id = i.run_id
        AND r.state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined'))
    ORDER BY i.created_at LIMIT $3))";

const OUTBOX: &str = "DELETE FROM outbox WHERE tenant_id = $1 AND ord = ANY(ARRAY(
    SELECT ord FROM outbox
    WHERE tenant_id = $1 AND state IN ('sent', 'dropped', 'dead', 'unknown') AND updated_at < $2
      AND (state IN ('sent', 'dropped') OR told_at < $2 OR updated_at < $4)
    ORDER BY updated_at LIMIT $3 FOR UPDATE SKIP LOCKED))";

const IDEMPOTENCY: &str = "DELETE FROM idempotency WHERE tenant_id = $1 AND key_hash = ANY(ARRAY(
    SELECT key_hash FROM idempotency WHERE tenant_id = $1 AND expires_at <= $2
    ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED))";

const APPROVALS: &str = "DELETE FROM approvals WHERE tenant_id = $1 AND id = ANY(ARRAY(
    SELECT id FROM approvals
    WHERE tenant_id = $1 AND state IN ('denied', 'expired', 'cancelled', 'used') AND updated_at < $2
    ORDER BY updated_at LIMIT $3 FOR UPDATE SKIP LOCKED))";

const CALLS: &str = "DELETE FROM model_calls c USING (
    SELECT started_at, id FROM model_calls WHERE tenant_id = $1 AND started_at < $2
    ORDER BY started_at, id LIMIT $3) old
  WHERE c.tenant_id = $1 AND c.started_at = old.started_at AND c.id = old.id";

async fn run(transaction: &mut PgConnection, tenant: &TenantId, sweep: &Sweep) -> TxResult<Swept> {
    let expired = expire(transaction, tenant, sweep).await?;
    let outbox = sqlx::query(OUTBOX)
        .bind(tenant.as_str())
        .bind(sweep.settled_before)
        .bind(i64::from(sweep.limit))
        .bind(sweep.untold_before)
        .execute(&mut *transaction)
        .await?
        .rows_affected();
    let [mut inbox, mut idempotency, mut approvals, mut calls] = [0; 4];
    for (sql, before, removed) in [
        (INBOX, sweep.settled_before, &mut inbox),
        (IDEMPOTENCY, sweep.now, &mut idempotency),
        (APPROVALS, sweep.settled_before, &mut approvals),
        (CALLS, sweep.calls_before, &mut calls),
    ] {
        *removed = sqlx::query(sql)
            .bind(tenant.as_str())
            .bind(before)
            .bind(i64::from(sweep.limit))
            .execute(&mut *transaction)
            .await?
            .rows_affected();
    }
    let sessions = forget_sessions(transaction, tenant, sweep).await?;
    let freed = budget::free_leftovers(transaction, tenant, sweep.limit).await?;
    let budgets = budget::forget(transaction, tenant, sweep.now, sweep.limit).await?;
    let limit = u64::from(sweep.limit);
    let counts =
        [inbox, outbox, idempotency, approvals, sessions, calls, freed, budgets, expired.len() as u64];
    let more = counts.iter().any(|&count| count >= limit);
    Ok(Swept { inbox, outbox, idempotency, sessions, approvals, calls, budgets, expired, more })
}

/// A person's wish to send a part again starts its waiting anew.
async fn expire(transaction: &mut PgConnection, tenant: &TenantId, sweep: &Sweep) -> TxResult<Vec<OutboxId>> {
    let waited = sqlx::query(
        "SELECT ord, id, run_id, part FROM outbox
         WHERE tenant_id = $1 AND state IN ('pending', 'sending') AND state = 'pending'
           AND coalesce(requeued_at, created_at) < $2
         ORDER BY ord LIMIT $3 FOR UPDATE SKIP LOCKED",
    )
    .bind(tenant.as_str())
    .bind(sweep.pending_before)
    .bind(i64::from(sweep.limit))
    .fetch_all(&mut *transaction)
    .await?;
    let mut expired = Vec::new();
    for row in waited {
        // The part before it may have ended this one already, with the rest of their reply.
        let ended = sqlx::query(
            "UPDATE outbox SET state = 'dead', reason = 'waited too long to be sent', updated_at = $3
             WHERE tenant_id = $1 AND ord = $2 AND state = 'pending'",
        )
        .bind(tenant.as_str())
        .bind(column::<i64>(&row, "ord")?)
        .bind(sweep.now)
        .execute(&mut *transaction)
        .await?;
        if ended.rows_affected() == 1 {
            drop_rest(transaction, tenant, parsed(&row, "run_id")?, column(&row, "part")?, sweep.now).await?;
            expired.push(parsed(&row, "id")?);
        }
    }
    Ok(expired)
}

/// Nobody used it, no run of it is open, and no answer of it is under way or failed untold.
const UNUSED: &str = "SELECT k.session_key FROM session_keys k
  WHERE k.tenant_id = $1 AND k.ephemeral_since < $2 AND k.updated_at < $2 AND k.active_run IS NULL
    AND NOT EXISTS (SELECT 1 FROM runs r
      WHERE r.tenant_id = $1 AND r.session_key = k.session_key
        AND r.state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined'))
    AND NOT EXISTS (SELECT 1 FROM runs r JOIN outbox o ON o.tenant_id = $1 AND o.run_id = r.id
      WHERE r.tenant_id = $1 AND r.session_key = k.session_key
        AND (o.state NOT IN ('sent', 'dropped', 'dead', 'unknown')
          OR (o.state IN ('dead', 'unknown') AND o.told_at IS NULL)))
  ORDER BY k.ephemeral_since LIMIT $3 FOR UPDATE OF k SKIP LOCKED";

async fn forget_sessions(transaction: &mut PgConnection, tenant: &TenantId, sweep: &Sweep) -> TxResult<u64> {
    // Whoever uses a session moves its row first: one that is locked here was not used since.
    let unused: Vec<String> = sqlx::query_scalar(UNUSED)
        .bind(tenant.as_str())
        .bind(sweep.ephemeral_before)
        .bind(i64::from(sweep.limit))
        .fetch_all(&mut *transaction)
        .await?;
    for key in &unused {
        keep_shared(transaction, tenant.as_str(), key).await?;
        for sql in FORGET.iter().chain(&BELONGINGS[1..]).chain(&[KEY]) {
            sqlx::query(*sql).bind(tenant.as_str()).bind(key).execute(&mut *transaction).await?;
        }
    }
    Ok(unused.len() as u64)
}

/// The keys of its runs' requests. They are found by themselves: the table has no index by run.
const FORGET: [&str; 1] = ["DELETE FROM idempotency i USING runs r
   WHERE i.tenant_id = $1 AND r.tenant_id = $1 AND r.session_key = $2 AND i.key_hash = r.idempotency_key
     AND i.run_id = r.id"];

const KEY: &str = "DELETE FROM session_keys WHERE tenant_id = $1 AND session_key = $2";
