//! Taking a session from its holder: after a crash, or because the holder gives it back.

use serde_json::json;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{ErrorBody, ReplyTarget, RunId, RunState, SessionKey};
use tidegate_storage::{BudgetChanges, Lease, Result, Settled, StoreError, after_crash};

use crate::append::hold;
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::{apply, ended_from_outside};
use crate::error::TxResult;
use crate::rows::{column, text, to_json, unsigned};

/// Where a run's answer goes. A target of a newer release is somebody to answer, so it reads as unknown, not as wrong.
pub(crate) fn reply_of(row: &PgRow) -> Result<Option<ReplyTarget>> {
    Ok(serde_json::from_str(column(row, "reply_json")?).ok())
}

/// Takes a session from its void holder: nobody writes under the old fence again, and the run gets its next state.
/// `None` when the run is in a state of a newer release: it is left alone. Call with the session's row locked.
pub(crate) async fn settle_session(
    transaction: &mut PgConnection,
    key: &SessionKey,
    run: RunId,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<Option<RunState>> {
    free(transaction, key, now).await?;
    let (state, reply) = state_and_reply(transaction, key, run).await?;
    if state != RunState::Running {
        return Ok(None);
    }
    give_back(transaction, key, run, reply.as_ref(), Tried::Counts, now, changes).await.map(Some)
}

/// The holder itself gives the run back: nothing went wrong, so the try does not count.
pub(crate) async fn release(transaction: &mut PgConnection, lease: &Lease, now: i64) -> TxResult<RunState> {
    hold(transaction, lease, now).await?;
    free(transaction, &lease.key, now).await?;
    let (_, reply) = state_and_reply(transaction, &lease.key, lease.run).await?;
    let mut changes = BudgetChanges::default();
    let (key, tried) = (&lease.key, Tried::DoesNotCount);
    let state = give_back(transaction, key, lease.run, reply.as_ref(), tried, now, &mut changes).await?;
    apply(transaction, lease.tenant(), &changes).await?;
    Ok(state)
}

async fn free(transaction: &mut PgConnection, key: &SessionKey, now: i64) -> TxResult<()> {
    sqlx::query(
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = $3
         WHERE tenant_id = $1 AND session_key = $2",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(())
}

async fn state_and_reply(
    transaction: &mut PgConnection,
    key: &SessionKey,
    run: RunId,
) -> TxResult<(RunState, Option<ReplyTarget>)> {
    let found = sqlx::query("SELECT state, reply_json FROM runs WHERE tenant_id = $1 AND id = $2")
        .bind(key.scope.tenant.as_str())
        .bind(run.to_string())
        .fetch_optional(transaction)
        .await?;
    let row = found.ok_or_else(|| missing(run))?;
    Ok((RunState::parse(column(&row, "state")?), reply_of(&row)?))
}

fn missing(run: RunId) -> StoreError {
    StoreError::Damaged(format!("the session's run {run} does not exist"))
}

/// Whether the try that ends here is one of those that a run has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Counts,
    DoesNotCount,
}

async fn give_back(
    transaction: &mut PgConnection,
    key: &SessionKey,
    run: RunId,
    reply: Option<&ReplyTarget>,
    tried: Tried,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<RunState> {
    let tenant = key.scope.tenant.as_str();
    interrupt_tools(transaction, tenant, run).await?;
    if let Some((state, error)) = after_crash(reply) {
        interrupt(transaction, key, run, &state, &error, now, changes).await?;
        return Ok(state);
    }
    let taken_back = i64::from(tried == Tried::DoesNotCount);
    sqlx::query("UPDATE runs SET state = 'queued', attempt = attempt - $3 WHERE tenant_id = $1 AND id = $2")
        .bind(tenant)
        .bind(run.to_string())
        .bind(taken_back)
        .execute(transaction)
        .await?;
    Ok(RunState::Queued)
}

/// Ends a run whose caller is gone. What it reserved goes into `changes`.
pub(crate) async fn interrupt(
    transaction: &mut PgConnection,
    key: &SessionKey,
    run: RunId,
    state: &RunState,
    error: &ErrorBody,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<()> {
    let id = run.to_string();
    let ended = sqlx::query(
        "UPDATE runs SET state = $3, error_json = $4, finished_at = $5, settled = CASE
           WHEN reservation_json IS NULL THEN NULL WHEN started_at IS NULL THEN $6 ELSE $7 END
         WHERE tenant_id = $1 AND id = $2
         RETURNING actor, attempt, reservation_json, started_at",
    )
    .bind(key.scope.tenant.as_str())
    .bind(&id)
    .bind(state.as_str())
    .bind(to_json(error)?)
    .bind(now)
    .bind(Settled::Returned.as_str())
    .bind(Settled::AsReserved.as_str())
    .fetch_optional(&mut *transaction)
    .await?;
    let row = ended.ok_or_else(|| missing(run))?;
    if let Some((reserved, settled)) = ended_from_outside(&row)? {
        changes.end(&reserved, settled);
    }
    cancel_of_run(transaction, &key.scope.tenant, run, now).await?;
    let attempt: u32 = unsigned(&row, "attempt")?;
    let audit = Audit {
        tenant: &key.scope.tenant,
        actor: &text(&row, "actor")?,
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key.to_string(), "attempt": attempt, "code": error.code }),
    };
    record(transaction, &audit, now).await
}

/// Whether these tools ran is unknown, and is never found out by running them again.
pub(crate) async fn interrupt_tools(
    transaction: &mut PgConnection,
    tenant: &str,
    run: RunId,
) -> TxResult<()> {
    sqlx::query(
        "UPDATE tool_runs SET status = 'interrupted'
         WHERE tenant_id = $1 AND run_id = $2 AND status = 'intended'",
    )
    .bind(tenant)
    .bind(run.to_string())
    .execute(transaction)
    .await?;
    Ok(())
}
