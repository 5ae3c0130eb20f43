//! Forgetting what has served its time.

use async_trait::async_trait;
use rusqlite::{Connection, Params, params};
use tidegate_protocol::{OutboxId, RunId, TenantId};
use tidegate_storage::{Result, Sweep, Sweeper, Swept};

use crate::abort::remove;
use crate::budget;
use crate::open::SqliteStore;
use crate::outbox::drop_rest;
use crate::rows::{collect, column, execute, parsed};
use crate::shared::keep_shared;
use crate::writer::verb;

#[async_trait]
impl Sweeper for SqliteStore {
    async fn sweep(&self, tenant: &TenantId, sweep: Sweep) -> Result<Swept> {
        let tenant = tenant.clone();
        self.write(verb!("sweep"), move |connection| run(connection, &tenant, &sweep)).await
    }
}

fn run(connection: &Connection, tenant: &TenantId, sweep: &Sweep) -> Result<Swept> {
    let limit = u64::from(sweep.limit);
    let expired = expire(connection, tenant, sweep)?;
    let inbox = remove_rows(
        connection,
        "DELETE FROM inbox WHERE tenant_id = ?1 AND id IN (
           SELECT i.id FROM inbox i WHERE i.tenant_id = ?1 AND i.created_at < ?2 AND NOT EXISTS (
             SELECT 1 FROM runs r WHERE r.tenant_id = ?1 AND r.id = i.run_id
               AND r.state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined'))
           ORDER BY i.created_at LIMIT ?3)",
        params![tenant.as_str(), sweep.settled_before, sweep.limit],
    )?;
    let outbox = remove_rows(
        connection,
        "DELETE FROM outbox WHERE ord IN (
           SELECT ord FROM outbox
           WHERE tenant_id = ?1 AND state IN ('sent', 'dropped', 'dead', 'unknown') AND updated_at < ?2
             AND (state IN ('sent', 'dropped') OR told_at < ?2 OR updated_at < ?4)
           ORDER BY updated_at LIMIT ?3)",
        params![tenant.as_str(), sweep.settled_before, sweep.limit, sweep.untold_before],
    )?;
    let idempotency = remove_rows(
        connection,
        "DELETE FROM idempotency WHERE tenant_id = ?1 AND key_hash IN (
           SELECT key_hash FROM idempotency WHERE tenant_id = ?1 AND expires_at <= ?2
           ORDER BY expires_at LIMIT ?3)",
        params![tenant.as_str(), sweep.now, sweep.limit],
    )?;
    let approvals = remove_rows(
        connection,
        "DELETE FROM approvals WHERE tenant_id = ?1 AND id IN (
           SELECT id FROM approvals
           WHERE tenant_id = ?1 AND state IN ('denied', 'expired', 'cancelled', 'used') AND updated_at < ?2
           ORDER BY updated_at LIMIT ?3)",
        params![tenant.as_str(), sweep.settled_before, sweep.limit],
    )?;
    let sessions = forget_sessions(connection, tenant, sweep)?;
    let calls = remove_rows(
        connection,
        "DELETE FROM model_calls WHERE tenant_id = ?1 AND (started_at, id) IN (
           SELECT started_at, id FROM model_calls WHERE tenant_id = ?1 AND started_at < ?2
           ORDER BY started_at, id LIMIT ?3)",
        params![tenant.as_str(), sweep.calls_before, sweep.limit],
    )?;
    let freed = budget::free_leftovers(connection, tenant, sweep.limit)?;
    let budgets = budget::forget(connection, tenant, sweep.now, sweep.limit)?;
    let counts =
        [inbox, outbox, idempotency, approvals, sessions, calls, freed, budgets, expired.len() as u64];
    let more = counts.iter().any(|&count| count >= limit);
    Ok(Swept { inbox, outbox, idempotency, sessions, approvals, calls, budgets, expired, more })
}

/// Counts the rows a DELETE removed.
fn remove_rows(connection: &Connection, sql: &str, params: impl Params) -> Result<u64> {
    execute(connection, sql, params).map(|rows| rows as u64)
}

/// A person's wish to send a part again starts its waiting anew.
fn expire(connection: &Connection, tenant: &TenantId, sweep: &Sweep) -> Result<Vec<OutboxId>> {
    let waited = collect(
        connection,
        "SELECT ord, id, run_id, part FROM outbox
         WHERE tenant_id = ?1 AND state IN ('pending', 'sending') AND state = 'pending'
           AND coalesce(requeued_at, created_at) < ?2
         ORDER BY ord LIMIT ?3",
        params![tenant.as_str(), sweep.pending_before, sweep.limit],
        |row| {
            Ok((
                column::<i64>(row, "ord")?,
                parsed::<OutboxId>(row, "id")?,
                parsed::<RunId>(row, "run_id")?,
                column::<u32>(row, "part")?,
            ))
        },
    )?;
    let mut expired = Vec::new();
    for (ord, id, run, part) in waited {
        // The part before it may have ended this one already, with the rest of their reply.
        let ended = execute(
            connection,
            "UPDATE outbox SET state = 'dead', reason = 'waited too long to be sent', updated_at = ?2
             WHERE ord = ?1 AND state = 'pending'",
            params![ord, sweep.now],
        )?;
        if ended == 1 {
            drop_rest(connection, tenant, run, part, sweep.now)?;
            expired.push(id);
        }
    }
    Ok(expired)
}

/// A session stays while a run of it has not ended, or an answer of it is under way or failed untold.
fn forget_sessions(connection: &Connection, tenant: &TenantId, sweep: &Sweep) -> Result<u64> {
    let unused = collect(
        connection,
        "SELECT k.session_key FROM session_keys k
         WHERE k.tenant_id = ?1 AND k.ephemeral_since IS NOT NULL AND k.ephemeral_since < ?2 AND k.updated_at < ?2
           AND k.active_run IS NULL
           AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_ephemeral
             WHERE r.tenant_id = ?1 AND r.session_key = k.session_key AND r.ephemeral = 1
               AND r.state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined'))
           AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_ephemeral CROSS JOIN outbox o ON o.tenant_id = ?1 AND o.run_id = r.id
             WHERE r.tenant_id = ?1 AND r.session_key = k.session_key AND r.ephemeral = 1
               AND (o.state NOT IN ('sent', 'dropped', 'dead', 'unknown')
                 OR (o.state IN ('dead', 'unknown') AND o.told_at IS NULL)))
         ORDER BY k.ephemeral_since LIMIT ?3",
        params![tenant.as_str(), sweep.ephemeral_before, sweep.limit],
        |row| column::<String>(row, "session_key"),
    )?;
    for key in &unused {
        keep_shared(connection, tenant, key)?;
        remove(connection, FORGET, tenant, key)?;
    }
    Ok(unused.len() as u64)
}

/// Found through the index of ephemeral runs, which the planner would not choose by itself. Their inbox rows go by their own age.
const FORGET: &[&str] = &[
    "DELETE FROM idempotency WHERE tenant_id = ?1
       AND key_hash IN (SELECT idempotency_key FROM runs INDEXED BY runs_ephemeral
         WHERE tenant_id = ?1 AND session_key = ?2 AND ephemeral = 1)
       AND run_id IN (SELECT id FROM runs INDEXED BY runs_ephemeral WHERE tenant_id = ?1 AND session_key = ?2 AND ephemeral = 1)",
    "DELETE FROM outbox WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs INDEXED BY runs_ephemeral WHERE tenant_id = ?1 AND session_key = ?2 AND ephemeral = 1)",
    "DELETE FROM tool_runs WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs INDEXED BY runs_ephemeral WHERE tenant_id = ?1 AND session_key = ?2 AND ephemeral = 1)",
    "DELETE FROM approvals WHERE tenant_id = ?1 AND session_key = ?2 AND state NOT IN ('pending', 'approved')",
    "DELETE FROM entries WHERE tenant_id = ?1 AND session_id IN
       (SELECT id FROM sessions WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM sessions WHERE tenant_id = ?1 AND session_key = ?2",
    "DELETE FROM runs INDEXED BY runs_ephemeral WHERE tenant_id = ?1 AND session_key = ?2 AND ephemeral = 1",
    "DELETE FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2",
];
