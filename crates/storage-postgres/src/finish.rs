//! FINISH on Postgres.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{Origin, Usage};
use tidegate_storage::{
    Accept, Accepted, BudgetChanges, BudgetKey, Ending, Finish, Finished, Lease, NewPart, Reserved, Settled,
    StoreError, countable,
};

use crate::abort::{end_started, lock_sessions};
use crate::accept::{Entered, admit, enter};
use crate::append::{append, hold};
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::{apply, lock_lines};
use crate::error::TxResult;
use crate::ledger::insert_calls;
use crate::outbox::lock_lane;
use crate::rows::{json_or_none, to_json, usage};
use crate::text::store;
use crate::transaction::take_turns;

pub(crate) async fn finish(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
) -> TxResult<Finished> {
    let told = finish.announce.as_deref().map(|told| Accept { claim: false, ..told.clone() });
    let mut keys = BTreeSet::new();
    if let Some(told) = &told {
        check_announce(lease, told)?;
        keys = [lease.key.to_string(), told.key.to_string()].into();
    }
    if finish.ending.ends_started() {
        lock_sessions(transaction, lease.tenant(), lease.run, keys).await?;
    } else {
        take_turns(transaction, keys).await?;
    }
    hold(transaction, lease, finish.now).await?;
    let head_seq = append(transaction, lease, &finish.entries, finish.now).await?;
    if finish.entries.is_empty() {
        lock_run(transaction, lease).await?;
    }
    let used = insert_calls(transaction, lease.tenant(), Some(lease.run), &finish.calls).await?;
    let (reserved, usage) = end_run(transaction, lease, finish, &used).await?;
    note_use(transaction, lease, finish, &used).await?;
    let key_moves = match &finish.ending {
        _ if finish.closes_session => KeyMoves::ToNone,
        // A log begins with its first entry; a run that ends without a word, as a command does, moves nowhere.
        Ending::Completed(origin) if !finish.entries.is_empty() || has_spoken(transaction, lease).await? => {
            KeyMoves::Here(origin)
        }
        Ending::Completed(_) | Ending::Failed(_) | Ending::Aborted(_) => KeyMoves::No,
    };
    move_key(transaction, lease, &key_moves).await?;
    cancel_of_run(transaction, lease.tenant(), lease.run, finish.now).await?;
    let mut changes = BudgetChanges::default();
    if finish.ending.ends_started() {
        end_started(transaction, &finish.principal, lease.run, finish.now, &mut changes).await?;
    }
    if let Some(reserved) = &reserved {
        changes.finish(reserved, &used);
    }
    // The other session's row before any lane: whoever holds a session's row may wait for a lane.
    let entered = match &told {
        Some(told) => Some((told, enter(transaction, told).await?)),
        None => None,
    };
    put_parts(transaction, lease, &finish.parts, finish.now).await?;
    let more = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued')",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .fetch_one(&mut *transaction)
    .await?;
    let announced = settle(transaction, lease, &changes, entered).await?;
    Ok(Finished { head_seq, more, usage, announced })
}

/// Only a conversation of the same tenant can be told.
fn check_announce(lease: &Lease, told: &Accept) -> TxResult<()> {
    StoreError::unless_own(&told.principal, &told.key)?;
    if told.key.scope.tenant != *lease.tenant() {
        return Err(StoreError::NotFound(format!("session {}", told.key.label())).into());
    }
    Ok(())
}

/// The run's row before its calls, as metering does: then nobody waits in a circle. Entries lock it too.
async fn lock_run(transaction: &mut PgConnection, lease: &Lease) -> TxResult<()> {
    sqlx::query("SELECT 1 FROM runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE")
        .bind(lease.tenant().as_str())
        .bind(lease.run.to_string())
        .execute(transaction)
        .await?;
    Ok(())
}

/// Ends the run. Answers what it had reserved, and what all its calls used.
async fn end_run(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
    used: &Usage,
) -> TxResult<(Option<Reserved>, Usage)> {
    let state = finish.ending.state();
    let error = match &finish.ending {
        Ending::Completed(_) => None,
        Ending::Failed(error) | Ending::Aborted(error) => Some(error),
    };
    // A tool that is still under way is not known to have ended, whatever became of it.
    let ended = sqlx::query(
        "WITH interrupted AS (UPDATE tool_runs SET status = 'interrupted'
           WHERE tenant_id = $1 AND run_id = $2 AND status = 'intended')
         UPDATE runs SET state = $3, error_json = $4, token_input = token_input + $5,
           token_output = token_output + $6, token_cache_read = token_cache_read + $7,
           token_cache_write = token_cache_write + $8, cost = cost + $9, finished_at = $10,
           settled = CASE WHEN reservation_json IS NOT NULL THEN $11 END
         WHERE tenant_id = $1 AND id = $2
         RETURNING reservation_json, token_input, token_output, token_cache_read, token_cache_write, cost",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.run.to_string())
    .bind(state.as_str())
    .bind(error.map(to_json).transpose()?)
    .bind(countable(used.input))
    .bind(countable(used.output))
    .bind(countable(used.cache_read))
    .bind(countable(used.cache_write))
    .bind(countable(used.cost.0))
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
    Ok((json_or_none(&ended, "reservation_json")?, usage(&ended)?))
}

/// The log counts what its run used since the last step, and remembers how full the model's window is.
async fn note_use(
    transaction: &mut PgConnection,
    lease: &Lease,
    finish: &Finish,
    used: &Usage,
) -> TxResult<()> {
    sqlx::query(
        "UPDATE sessions SET token_input = token_input + $3, token_output = token_output + $4,
           token_cache_read = token_cache_read + $5, token_cache_write = token_cache_write + $6, cost = cost + $7,
           context_tokens = coalesce($8, context_tokens)
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.session.to_string())
    .bind(countable(used.input))
    .bind(countable(used.output))
    .bind(countable(used.cache_read))
    .bind(countable(used.cache_write))
    .bind(countable(used.cost.0))
    .bind(finish.context_tokens.map(countable))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Lets budgets count what was used in place of what was reserved, and the announcement reserve. Last: the rows of
/// budgets are shared, so they are locked as shortly as can be, and all in one order.
async fn settle(
    transaction: &mut PgConnection,
    lease: &Lease,
    changes: &BudgetChanges,
    entered: Option<(&Accept, Entered)>,
) -> TxResult<Option<Accepted>> {
    let Some((told, entered)) = entered else {
        apply(transaction, lease.tenant(), changes).await?;
        return Ok(None);
    };
    let mut lines: BTreeSet<BudgetKey> = changes.iter().map(|(key, _)| key.clone()).collect();
    lines.extend(told.reservation.iter().flat_map(|reservation| Reserved::of(reservation).lines));
    lock_lines(transaction, lease.tenant(), &lines).await?;
    apply(transaction, lease.tenant(), changes).await?;
    admit(transaction, told, entered).await.map(Some)
}

/// What becomes of the key's current log.
enum KeyMoves<'a> {
    No,
    /// This run's log is the current one, and remembers who answered.
    Here(&'a Origin),
    ToNone,
}

/// Moves the key and frees the session.
async fn move_key(transaction: &mut PgConnection, lease: &Lease, moves: &KeyMoves<'_>) -> TxResult<()> {
    let session = lease.session.to_string();
    match moves {
        KeyMoves::No => {}
        KeyMoves::Here(origin) => {
            make_current(transaction, lease).await?;
            note_origin(transaction, lease, origin).await?;
        }
        KeyMoves::ToNone => {
            sqlx::query(
                "UPDATE sessions SET state = 'closed'
                 WHERE tenant_id = $1 AND session_key = $2 AND state = 'current'",
            )
            .bind(lease.tenant().as_str())
            .bind(lease.key.to_string())
            .execute(&mut *transaction)
            .await?;
        }
    }
    sqlx::query(
        "UPDATE session_keys SET active_run = NULL, owner_instance = NULL, owner_incarnation = NULL,
           session_id = CASE WHEN $4 THEN $3 ELSE session_id END
         WHERE tenant_id = $1 AND session_key = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .bind(matches!(moves, KeyMoves::Here(_)).then_some(session))
    .bind(!matches!(moves, KeyMoves::No))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Whether the run's messages are in the log already: its last answer may be there before its end.
async fn has_spoken(transaction: &mut PgConnection, lease: &Lease) -> TxResult<bool> {
    let spoken = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM entries e JOIN runs r ON r.tenant_id = $1 AND r.id = $3
           WHERE e.tenant_id = $1 AND e.session_id = $2 AND e.run_id = $3 AND e.seq >= r.first_seq
             AND e.kind <> 'compaction')",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.session.to_string())
    .bind(lease.run.to_string())
    .fetch_one(transaction)
    .await?;
    Ok(spoken)
}

/// This run's log becomes the key's current one; the one before is closed.
async fn make_current(transaction: &mut PgConnection, lease: &Lease) -> TxResult<()> {
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
        "UPDATE sessions SET state = 'current' WHERE tenant_id = $1 AND id = $2 AND state <> 'current'",
    )
    .bind(tenant)
    .bind(session)
    .execute(transaction)
    .await?;
    Ok(())
}

/// The log remembers who answered.
async fn note_origin(transaction: &mut PgConnection, lease: &Lease, origin: &Origin) -> TxResult<()> {
    sqlx::query(
        "UPDATE sessions SET route = $3, provider = $4, profile_id = $5 WHERE tenant_id = $1 AND id = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.session.to_string())
    .bind(store(&origin.route))
    .bind(store(&origin.provider))
    .bind(origin.profile_id.as_deref().map(store))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Stores parts of the run's reply, after those that it has already. Two sessions may answer into one lane: its lock makes the order of numbers the order of
/// commits, so that nobody overtakes a part that is not visible yet.
pub(crate) async fn put_parts(
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
         SELECT $1, part.id, $2, part.place
             + (SELECT coalesce(max(o.part), 0) FROM outbox o WHERE o.tenant_id = $1 AND o.run_id = $2), part.lane, part.body, part.channel, part.account_id, 'pending', 0, 0, $3, $3
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
