//! FINISH on Postgres.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::Origin;
use tidegate_storage::{BudgetChanges, Ending, Finish, Finished, Lease, NewPart, Reserved, Settled};

use crate::append::{append, hold};
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::apply;
use crate::error::TxResult;
use crate::ledger::insert_calls;
use crate::outbox::lock_lane;
use crate::rows::{json_or_none, signed, to_json};
use crate::text::store;

pub(crate) async fn finish(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
) -> TxResult<Finished> {
    hold(transaction, lease, finish.now).await?;
    let head_seq = append(transaction, lease, &finish.entries, finish.now).await?;
    let reserved = end_run(transaction, lease, finish).await?;
    // A log begins with its first entry; a run that wrote none has no log to move to.
    let moves = head_seq > 0 && matches!(finish.ending, Ending::Completed(_));
    if let Ending::Completed(origin) = &finish.ending
        && moves
    {
        make_current(transaction, lease, origin).await?;
    }
    cancel_of_run(transaction, lease.tenant(), lease.run, finish.now).await?;
    release(transaction, lease, moves).await?;
    put_parts(transaction, lease, &finish.parts, finish.now).await?;
    let more = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued')",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .fetch_one(&mut *transaction)
    .await?;
    spend(transaction, lease, finish, reserved.as_ref()).await?;
    Ok(Finished { head_seq, more })
}

/// Ends the run and answers what it had reserved.
async fn end_run(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
) -> TxResult<Option<Reserved>> {
    let state = finish.ending.state();
    let error = match &finish.ending {
        Ending::Completed(_) => None,
        Ending::Failed(error) | Ending::Aborted(error) => Some(error),
    };
    let usage = &finish.usage;
    let ended = sqlx::query(
        "UPDATE runs SET state = $3, error_json = $4, token_input = $5, token_output = $6,
           token_cache_read = $7, token_cache_write = $8, cost = $9, finished_at = $10,
           settled = CASE WHEN reservation_json IS NOT NULL THEN $11 END
         WHERE tenant_id = $1 AND id = $2
         RETURNING reservation_json",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.run.to_string())
    .bind(state.as_str())
    .bind(error.map(to_json).transpose()?)
    .bind(signed(usage.input))
    .bind(signed(usage.output))
    .bind(signed(usage.cache_read))
    .bind(signed(usage.cache_write))
    .bind(signed(usage.cost.0))
    .bind(finish.now)
    .bind(Settled::Used.as_str())
    .fetch_one(&mut *transaction)
    .await?;
    let mut metadata = json!({
        "sessionKey": lease.key.to_string(),
        "sessionId": lease.session.to_string(),
        "attempt": lease.attempt,
    });
    if let Some(error) = error {
        metadata["code"] = error.code.as_str().into();
    }
    let audit = Audit {
        tenant: lease.tenant(),
        actor: finish.principal.actor(),
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &lease.run.to_string(),
        metadata,
    };
    record(transaction, &audit, finish.now).await?;
    Ok(json_or_none(&ended, "reservation_json")?)
}

/// Writes down the run's calls, and lets its budgets count what they used in place of what was reserved. Last: the
/// rows of budgets are shared, so they are locked as shortly as can be.
async fn spend(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
    reserved: Option<&Reserved>,
) -> TxResult<()> {
    let used = insert_calls(transaction, lease.tenant(), Some(lease.run), &finish.calls).await?;
    let Some(reserved) = reserved else { return Ok(()) };
    let mut changes = BudgetChanges::default();
    changes.finish(reserved, &used);
    apply(transaction, lease.tenant(), &changes).await
}

/// This run's log becomes the key's current one and remembers who answered; the one before is closed.
async fn make_current(transaction: &mut PgConnection, lease: &Lease, origin: &Origin) -> TxResult<()> {
    let (tenant, key, session) = (lease.tenant().as_str(), lease.key.to_string(), lease.session.to_string());
    sqlx::query(
        "UPDATE sessions SET state = 'closed'
         WHERE tenant_id = $1 AND session_key = $2 AND state = 'current' AND id <> $3",
    )
    .bind(tenant)
    .bind(key)
    .bind(&session)
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "UPDATE sessions SET state = 'current', route = $3, provider = $4, profile_id = $5
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant)
    .bind(session)
    .bind(store(&origin.route))
    .bind(store(&origin.provider))
    .bind(origin.profile_id.as_deref().map(store))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Frees the session; the key moves to this run's log only if the run completed.
async fn release(transaction: &mut PgConnection, lease: &Lease, completed: bool) -> TxResult<()> {
    sqlx::query(
        "UPDATE session_keys SET active_run = NULL, owner_instance = NULL, owner_incarnation = NULL,
           session_id = coalesce($3, session_id)
         WHERE tenant_id = $1 AND session_key = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .bind(completed.then(|| lease.session.to_string()))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Stores the reply's parts. Two sessions may answer into one lane: its lock makes the order of numbers the order of
/// commits, so that nobody overtakes a part that is not visible yet.
async fn put_parts(
    transaction: &mut PgConnection,
    lease: &Lease,
    parts: &[NewPart],
    now: i64,
) -> TxResult<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let tenant = lease.tenant().as_str();
    // In one order for everybody: two replies that share two lanes cannot wait for each other.
    for lane in parts.iter().map(|part| store(&part.lane)).collect::<BTreeSet<_>>() {
        lock_lane(transaction, tenant, &lane).await?;
    }
    sqlx::query(
        "INSERT INTO outbox (tenant_id, id, run_id, part, lane, body, channel, account_id, state, attempt, retry_at,
           created_at, updated_at)
         SELECT $1, part.id, $2, part.place, part.lane, part.body, part.channel, part.account_id, 'pending', 0, 0, $3, $3
         FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
           AS part (id, lane, body, channel, account_id, place)
         ORDER BY part.place",
    )
    .bind(tenant)
    .bind(lease.run.to_string())
    .bind(now)
    .bind(parts.iter().map(|part| part.id.to_string()).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| store(&part.lane).into_owned()).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| store(&part.body).into_owned()).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| part.channel.as_str()).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| store(&part.account_id).into_owned()).collect::<Vec<_>>())
    .execute(transaction)
    .await?;
    Ok(())
}
