//! Ending from outside: a run, or a whole session.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{ErrorBody, ErrorCode, RunId, RunState, SessionKey, TenantId};
use tidegate_storage::{AbortOutcome, BudgetChanges, Principal, Settled, StoreError};

use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::{apply, ended_from_outside};
use crate::error::TxResult;
use crate::rows::{collect, column, parsed, to_json};
use crate::settle::interrupt_tools;
use crate::shared::keep_shared;
use crate::text::restore;
use crate::transaction::take_turns;

/// Which runs may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    Any,
    Queued,
}

pub(crate) async fn abort(
    transaction: &mut PgConnection,
    principal: &Principal,
    run: RunId,
    only: Only,
    now: i64,
) -> TxResult<AbortOutcome> {
    let tenant = principal.tenant();
    lock_sessions(transaction, tenant, run, BTreeSet::new()).await?;
    let Some(state) = locked_state(transaction, tenant, run).await? else {
        return Ok(AbortOutcome::NotFound);
    };
    if !matches!(state, RunState::Queued | RunState::Running) {
        return Ok(AbortOutcome::AlreadyEnded(state));
    }
    if only == Only::Queued && state != RunState::Queued {
        return Ok(AbortOutcome::Begun);
    }
    let mut changes = BudgetChanges::default();
    end(transaction, principal, run, now, &mut changes).await?;
    end_started(transaction, principal, run, now, &mut changes).await?;
    apply(transaction, tenant, &changes).await?;
    Ok(AbortOutcome::Aborted)
}

/// Ends what a run started, and what that started. What was reserved goes into `changes`. Whoever is ended starts nothing
/// any more, so this comes to an end.
pub(crate) async fn end_started(
    transaction: &mut PgConnection,
    principal: &Principal,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<()> {
    let tenant = principal.tenant();
    loop {
        let open = descendants(transaction, tenant, run).await?;
        if open.is_empty() {
            return Ok(());
        }
        for run in open {
            let state = locked_state(transaction, tenant, run).await?;
            if matches!(state, Some(RunState::Queued | RunState::Running)) {
                end(transaction, principal, run, now, changes).await?;
            }
        }
    }
}

/// The runs that a run started, and those they started, that can be ended. One that ended may have left some.
pub(crate) async fn descendants(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
) -> TxResult<Vec<RunId>> {
    let rows = sqlx::query(
        "WITH RECURSIVE tree (id, state) AS (
           SELECT id, state FROM runs WHERE tenant_id = $1 AND parent_run = $2
           UNION
           SELECT r.id, r.state FROM tree t JOIN runs r ON r.tenant_id = $1 AND r.parent_run = t.id)
         SELECT id FROM tree WHERE state IN ('queued', 'running') ORDER BY id",
    )
    .bind(tenant.as_str())
    .bind(run.to_string())
    .fetch_all(transaction)
    .await?;
    Ok(collect(&rows, |row| parsed(row, "id"))?)
}

/// Locks the rows of all sessions that the end of the run touches, in one order; `also` those of these keys.
pub(crate) async fn lock_sessions(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
    also: BTreeSet<String>,
) -> TxResult<()> {
    let descendants = descendants(transaction, tenant, run).await?;
    if descendants.is_empty() {
        return take_turns(transaction, also).await;
    }
    let ids: Vec<String> = std::iter::once(run).chain(descendants).map(|run| run.to_string()).collect();
    let found: Vec<String> =
        sqlx::query_scalar("SELECT DISTINCT session_key FROM runs WHERE tenant_id = $1 AND id = ANY($2)")
            .bind(tenant.as_str())
            .bind(ids)
            .fetch_all(&mut *transaction)
            .await?;
    let keys: BTreeSet<String> = found.into_iter().chain(also).collect();
    take_turns(transaction, keys.clone()).await?;
    sqlx::query(
        "SELECT 1 FROM session_keys WHERE tenant_id = $1 AND session_key = ANY($2) ORDER BY session_key FOR UPDATE",
    )
    .bind(tenant.as_str())
    .bind(keys.into_iter().collect::<Vec<_>>())
    .execute(transaction)
    .await?;
    Ok(())
}

/// The run's state. The session's row first, as every writer does; only under its lock is the state certain.
async fn locked_state(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
) -> TxResult<Option<RunState>> {
    sqlx::query(
        "SELECT 1 FROM session_keys k JOIN runs r ON r.tenant_id = k.tenant_id AND r.session_key = k.session_key
         WHERE r.tenant_id = $1 AND r.id = $2 FOR UPDATE OF k",
    )
    .bind(tenant.as_str())
    .bind(run.to_string())
    .execute(&mut *transaction)
    .await?;
    let state: Option<String> = sqlx::query_scalar("SELECT state FROM runs WHERE tenant_id = $1 AND id = $2")
        .bind(tenant.as_str())
        .bind(run.to_string())
        .fetch_optional(transaction)
        .await?;
    Ok(state.as_deref().map(RunState::parse))
}

/// Ends one run. What it reserved goes into `changes`. Call with its session's row locked.
async fn end(
    transaction: &mut PgConnection,
    principal: &Principal,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<()> {
    let (tenant, id) = (principal.tenant().as_str(), run.to_string());
    let error = ErrorBody::new(ErrorCode::Aborted, format!("ended by {principal}"));
    let ended = sqlx::query(
        "UPDATE runs SET state = 'aborted', error_json = $3, finished_at = $4, settled = CASE
           WHEN reservation_json IS NULL THEN NULL WHEN started_at IS NULL THEN $5 ELSE $6 END
         WHERE tenant_id = $1 AND id = $2
         RETURNING session_key, reservation_json, started_at",
    )
    .bind(tenant)
    .bind(&id)
    .bind(to_json(&error)?)
    .bind(now)
    .bind(Settled::Returned.as_str())
    .bind(Settled::AsReserved.as_str())
    .fetch_one(&mut *transaction)
    .await?;
    let key: &str = column(&ended, "session_key")?;
    sqlx::query(
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = $4
         WHERE tenant_id = $1 AND session_key = $2 AND active_run = $3",
    )
    .bind(tenant)
    .bind(key)
    .bind(&id)
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    interrupt_tools(transaction, tenant, run).await?;
    cancel_of_run(transaction, principal.tenant(), run, now).await?;
    if let Some((reserved, settled)) = ended_from_outside(&ended)? {
        changes.end(&reserved, settled);
    }
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action: "agent.run.aborted",
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key, "code": error.code }),
    };
    record(transaction, &audit, now).await
}

/// What belongs to a session key, and goes before the key's own row does. Its first is a search by run; whoever knows
/// the keys leaves it out.
pub(crate) const BELONGINGS: [&str; 8] = [
    "DELETE FROM idempotency WHERE tenant_id = $1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = $1 AND session_key = $2)",
    "DELETE FROM outbox WHERE tenant_id = $1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = $1 AND session_key = $2)",
    "DELETE FROM inbox WHERE tenant_id = $1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = $1 AND session_key = $2)",
    "DELETE FROM tool_runs WHERE tenant_id = $1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = $1 AND session_key = $2)",
    "DELETE FROM approvals WHERE tenant_id = $1 AND session_key = $2 AND state NOT IN ('pending', 'approved')",
    "DELETE FROM entries WHERE tenant_id = $1 AND session_id IN
       (SELECT id FROM sessions WHERE tenant_id = $1 AND session_key = $2)",
    "DELETE FROM sessions WHERE tenant_id = $1 AND session_key = $2",
    "DELETE FROM runs WHERE tenant_id = $1 AND session_key = $2",
];

pub(crate) async fn delete(
    transaction: &mut PgConnection,
    principal: &Principal,
    session_key: &SessionKey,
    now: i64,
) -> TxResult<Vec<String>> {
    let (tenant, key) = (session_key.scope.tenant.as_str(), session_key.to_string());
    // Removing the row first takes its lock: no run can be accepted or claimed behind our back.
    let removed = sqlx::query("DELETE FROM session_keys WHERE tenant_id = $1 AND session_key = $2")
        .bind(tenant)
        .bind(&key)
        .execute(&mut *transaction)
        .await?;
    if removed.rows_affected() == 0 {
        return Err(StoreError::NotFound(format!("session {}", session_key.label())).into());
    }
    // A state of a newer release may still be under way.
    let busy = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE tenant_id = $1 AND session_key = $2
           AND state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined'))",
    )
    .bind(tenant)
    .bind(&key)
    .fetch_one(&mut *transaction)
    .await?;
    if busy {
        return Err(StoreError::SessionBusy.into());
    }
    let logs = sqlx::query(
        "SELECT coalesce(alias, id) AS name FROM sessions
         WHERE tenant_id = $1 AND session_key = $2 AND state <> 'shared' ORDER BY id",
    )
    .bind(tenant)
    .bind(&key)
    .fetch_all(&mut *transaction)
    .await?;
    let names =
        logs.iter().map(|row| Ok(restore(column(row, "name")?))).collect::<TxResult<Vec<String>>>()?;
    keep_shared(transaction, tenant, &key).await?;
    for sql in BELONGINGS {
        sqlx::query(sql).bind(tenant).bind(&key).execute(&mut *transaction).await?;
    }
    let audit = Audit {
        tenant: &session_key.scope.tenant,
        actor: principal.actor(),
        action: "session.delete",
        resource_type: "session",
        resource_id: &key,
        metadata: json!({ "logs": names }),
    };
    record(transaction, &audit, now).await?;
    Ok(names)
}
