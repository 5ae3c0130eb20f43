//! Taking a session from its holder: after a crash, or because the holder gives it back.

use rusqlite::{Connection, Row, params};
use serde_json::json;
use tidegate_protocol::{ErrorBody, ReplyTarget, RunId, RunState, SessionKey};
use tidegate_storage::{BudgetChanges, Lease, Result, Settled, StoreError, after_crash};

use crate::append::hold;
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::{apply, ended_from_outside};
use crate::rows::{column, execute, first, to_json};

/// Where a run's answer goes. A target of a newer release is somebody to answer, so it reads as unknown, not as wrong.
pub(crate) fn reply_of(row: &Row<'_>) -> Result<Option<ReplyTarget>> {
    Ok(serde_json::from_str(&column::<String>(row, "reply_json")?).ok())
}

/// Takes a session from its void holder: nobody writes under the old fence again, and the run gets its next state.
/// `None` when a newer release wrote the run's state: then the run is left alone.
pub(crate) fn settle_session(
    connection: &Connection,
    key: &SessionKey,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<Option<RunState>> {
    free(connection, key, now)?;
    let found = first(
        connection,
        "SELECT state, reply_json FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![key.scope.tenant.as_str(), run.to_string()],
        |row| Ok((RunState::parse(&column::<String>(row, "state")?), reply_of(row)?)),
    )?;
    let Some((state, reply)) = found else {
        return Err(StoreError::Damaged(format!("the session's run {run} does not exist")));
    };
    if state != RunState::Running {
        return Ok(None);
    }
    give_back(connection, key, run, reply.as_ref(), Tried::Counts, now, changes).map(Some)
}

/// The holder itself gives the run back: nothing went wrong, so the try does not count.
pub(crate) fn release(connection: &Connection, lease: &Lease, now: i64) -> Result<RunState> {
    hold(connection, lease, now)?;
    free(connection, &lease.key, now)?;
    let reply = first(
        connection,
        "SELECT reply_json FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![lease.tenant().as_str(), lease.run.to_string()],
        reply_of,
    )?;
    let reply = reply.flatten();
    let mut changes = BudgetChanges::default();
    let state =
        give_back(connection, &lease.key, lease.run, reply.as_ref(), Tried::DoesNotCount, now, &mut changes)?;
    apply(connection, lease.tenant(), &changes)?;
    Ok(state)
}

fn free(connection: &Connection, key: &SessionKey, now: i64) -> Result<()> {
    execute(
        connection,
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL, owner_incarnation = NULL,
           updated_at = ?3
         WHERE tenant_id = ?1 AND session_key = ?2",
        params![key.scope.tenant.as_str(), key.to_string(), now],
    )?;
    Ok(())
}

/// Whether the try that ends here is one of those that a run has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Counts,
    DoesNotCount,
}

fn give_back(
    connection: &Connection,
    key: &SessionKey,
    run: RunId,
    reply: Option<&ReplyTarget>,
    tried: Tried,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<RunState> {
    let of_run = params![key.scope.tenant.as_str(), run.to_string()];
    execute(
        connection,
        "UPDATE tool_runs SET status = 'interrupted' WHERE tenant_id = ?1 AND run_id = ?2 AND status = 'intended'",
        of_run,
    )?;
    if let Some((state, error)) = after_crash(reply) {
        interrupt(connection, key, run, &state, &error, now, changes)?;
        return Ok(state);
    }
    let sql = match tried {
        Tried::Counts => "UPDATE runs SET state = 'queued' WHERE tenant_id = ?1 AND id = ?2",
        Tried::DoesNotCount => {
            "UPDATE runs SET state = 'queued', attempt = attempt - 1 WHERE tenant_id = ?1 AND id = ?2"
        }
    };
    execute(connection, sql, of_run)?;
    Ok(RunState::Queued)
}

/// Ends a run whose caller is gone. What it reserved goes into `changes`.
pub(crate) fn interrupt(
    connection: &Connection,
    key: &SessionKey,
    run: RunId,
    state: &RunState,
    error: &ErrorBody,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<()> {
    let (tenant, id) = (key.scope.tenant.as_str(), run.to_string());
    let ended = first(
        connection,
        "UPDATE runs SET state = ?3, error_json = ?4, finished_at = ?5, settled = CASE
           WHEN reservation_json IS NULL THEN NULL WHEN started_at IS NULL THEN ?6 ELSE ?7 END
         WHERE tenant_id = ?1 AND id = ?2
         RETURNING actor, attempt, reservation_json, started_at",
        params![
            tenant,
            id,
            state.as_str(),
            to_json(error)?,
            now,
            Settled::Returned.as_str(),
            Settled::AsReserved.as_str()
        ],
        |row| Ok((column::<String>(row, "actor")?, column::<u32>(row, "attempt")?, ended_from_outside(row)?)),
    )?;
    let Some((actor, attempt, reserved)) = ended else {
        return Err(StoreError::Damaged(format!("the session's run {id} does not exist")));
    };
    if let Some((reserved, settled)) = reserved {
        changes.end(&reserved, settled);
    }
    cancel_of_run(connection, &key.scope.tenant, run, now)?;
    let audit = Audit {
        tenant: &key.scope.tenant,
        actor: &actor,
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key.to_string(), "attempt": attempt, "code": error.code }),
    };
    record(connection, &audit, now)
}
