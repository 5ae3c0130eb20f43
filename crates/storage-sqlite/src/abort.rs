//! Ending from outside: a run, or a whole session.

use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::{ErrorBody, ErrorCode, RunId, RunState, SessionKey, TenantId};
use tidegate_storage::{AbortOutcome, BudgetChanges, Principal, Result, Settled, StoreError};

use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::{apply, ended_from_outside};
use crate::rows::{collect, column, execute, first, parsed, to_json};
use crate::shared::keep_shared;

/// Which runs may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    Any,
    Queued,
}

pub(crate) fn abort(
    connection: &Connection,
    principal: &Principal,
    run: RunId,
    only: Only,
    now: i64,
) -> Result<AbortOutcome> {
    let tenant = principal.tenant();
    let state = first(
        connection,
        "SELECT state FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), run.to_string()],
        |row| Ok(RunState::parse(&column::<String>(row, "state")?)),
    )?;
    let Some(state) = state else { return Ok(AbortOutcome::NotFound) };
    if !matches!(state, RunState::Queued | RunState::Running) {
        return Ok(AbortOutcome::AlreadyEnded(state));
    }
    if only == Only::Queued && state != RunState::Queued {
        return Ok(AbortOutcome::Begun);
    }
    let mut changes = BudgetChanges::default();
    end(connection, principal, run, now, &mut changes)?;
    end_started(connection, principal, run, now, &mut changes)?;
    apply(connection, tenant, &changes)?;
    Ok(AbortOutcome::Aborted)
}

/// Ends what a run started, and what that started. What was reserved goes into `changes`.
pub(crate) fn end_started(
    connection: &Connection,
    principal: &Principal,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<()> {
    for run in descendants(connection, principal.tenant(), run)? {
        end(connection, principal, run, now, changes)?;
    }
    Ok(())
}

/// The runs that a run started, and those they started, that can be ended. One that ended may have left some.
pub(crate) fn descendants(connection: &Connection, tenant: &TenantId, run: RunId) -> Result<Vec<RunId>> {
    collect(
        connection,
        "WITH RECURSIVE tree (id, state) AS (
           SELECT id, state FROM runs INDEXED BY runs_by_parent WHERE tenant_id = ?1 AND parent_run = ?2
           UNION
           SELECT r.id, r.state FROM tree t CROSS JOIN runs r INDEXED BY runs_by_parent
             ON r.tenant_id = ?1 AND r.parent_run = t.id)
         SELECT id FROM tree WHERE state IN ('queued', 'running') ORDER BY id",
        params![tenant.as_str(), run.to_string()],
        |row| parsed(row, "id"),
    )
}

/// Ends one run. What it reserved goes into `changes`.
fn end(
    connection: &Connection,
    principal: &Principal,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<()> {
    let (tenant, id) = (principal.tenant().as_str(), run.to_string());
    execute(
        connection,
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL, owner_incarnation = NULL,
           updated_at = ?3
         WHERE tenant_id = ?1 AND session_key = (SELECT session_key FROM runs WHERE tenant_id = ?1 AND id = ?2)
           AND active_run = ?2",
        params![tenant, id, now],
    )?;
    let error = ErrorBody::new(ErrorCode::Aborted, format!("ended by {principal}"));
    let ended = first(
        connection,
        "UPDATE runs SET state = 'aborted', error_json = ?3, finished_at = ?4, settled = CASE
           WHEN reservation_json IS NULL THEN NULL WHEN started_at IS NULL THEN ?5 ELSE ?6 END
         WHERE tenant_id = ?1 AND id = ?2
         RETURNING session_key, reservation_json, started_at",
        params![tenant, id, to_json(&error)?, now, Settled::Returned.as_str(), Settled::AsReserved.as_str()],
        |row| Ok((column::<String>(row, "session_key")?, ended_from_outside(row)?)),
    )?;
    let Some((key, reserved)) = ended else { return Ok(()) };
    if let Some((reserved, settled)) = reserved {
        changes.end(&reserved, settled);
    }
    execute(
        connection,
        "UPDATE tool_runs SET status = 'interrupted' WHERE tenant_id = ?1 AND run_id = ?2 AND status = 'intended'",
        params![tenant, id],
    )?;
    cancel_of_run(connection, principal.tenant(), run, now)?;
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action: "agent.run.aborted",
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key, "code": error.code }),
    };
    record(connection, &audit, now)
}

pub(crate) fn delete(
    connection: &Connection,
    principal: &Principal,
    session_key: &SessionKey,
    now: i64,
) -> Result<Vec<String>> {
    let (tenant, key) = (session_key.scope.tenant.as_str(), session_key.to_string());
    let of_key = params![tenant, key];
    let busy = first(
        connection,
        "SELECT 1 AS one FROM runs
         WHERE tenant_id = ?1 AND session_key = ?2 AND state NOT IN ('completed', 'failed', 'aborted', 'interrupted', 'joined')",
        of_key,
        |row| column::<i64>(row, "one"),
    )?;
    if busy.is_some() {
        return Err(StoreError::SessionBusy);
    }
    let names = collect(
        connection,
        "SELECT coalesce(alias, id) AS name FROM sessions INDEXED BY sessions_by_key
         WHERE tenant_id = ?1 AND session_key = ?2 AND state <> 'shared' ORDER BY id",
        of_key,
        |row| column::<String>(row, "name"),
    )?;
    keep_shared(connection, &session_key.scope.tenant, &key)?;
    remove(connection, OF_KEY, &session_key.scope.tenant, &key)?;
    let removed =
        execute(connection, "DELETE FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2", of_key)?;
    if removed == 0 {
        return Err(StoreError::NotFound(format!("session {}", session_key.label())));
    }
    let audit = Audit {
        tenant: &session_key.scope.tenant,
        actor: principal.actor(),
        action: "session.delete",
        resource_type: "session",
        resource_id: &key,
        metadata: json!({ "logs": names }),
    };
    record(connection, &audit, now)?;
    Ok(names)
}

const OF_KEY: &[&str] = &[
    "DELETE FROM idempotency WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM outbox WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM inbox WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM tool_runs WHERE tenant_id = ?1 AND run_id IN
       (SELECT id FROM runs WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM approvals WHERE tenant_id = ?1 AND session_key = ?2 AND state NOT IN ('pending', 'approved')",
    "DELETE FROM entries WHERE tenant_id = ?1 AND session_id IN
       (SELECT id FROM sessions WHERE tenant_id = ?1 AND session_key = ?2)",
    "DELETE FROM sessions WHERE tenant_id = ?1 AND session_key = ?2",
    "DELETE FROM runs WHERE tenant_id = ?1 AND session_key = ?2",
];

/// Runs the statements that remove what belongs to a session key.
pub(crate) fn remove(
    connection: &Connection,
    statements: &[&str],
    tenant: &TenantId,
    key: &str,
) -> Result<()> {
    for sql in statements {
        execute(connection, sql, params![tenant.as_str(), key])?;
    }
    Ok(())
}
