//! FINISH on SQLite.

use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::{Origin, Usage};
use tidegate_storage::{
    Accept, Accepted, BudgetChanges, Ending, Finish, Finished, Lease, NewPart, Reserved, Result, Settled,
    StoreError, countable,
};

use crate::abort::end_started;
use crate::accept::accept;
use crate::append::{append, hold};
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::apply;
use crate::ledger::insert_calls;
use crate::rows::{column, execute, first, json_or_none, to_json, usage};

pub(crate) fn finish(connection: &Connection, lease: &Lease, finish: &Finish) -> Result<Finished> {
    let (tenant, key) = (lease.tenant().as_str(), lease.key.to_string());
    hold(connection, lease, finish.now)?;
    let head_seq = append(connection, lease, &finish.entries, finish.now)?;
    let used = insert_calls(connection, lease.tenant(), Some(lease.run), &finish.calls)?;
    let usage = end_run(connection, lease, finish, &used)?;
    note_use(connection, lease, finish, &used)?;
    match &finish.ending {
        _ if finish.closes_session => close_current(connection, lease)?,
        // A log begins with its first entry; a run that ends without a word, as a command does, moves nowhere.
        Ending::Completed(origin) if !finish.entries.is_empty() || has_spoken(connection, lease)? => {
            make_current(connection, lease)?;
            note_origin(connection, lease, origin)?;
        }
        Ending::Completed(_) | Ending::Failed(_) | Ending::Aborted(_) => {}
    }
    execute(
        connection,
        "UPDATE session_keys SET active_run = NULL, owner_instance = NULL, owner_incarnation = NULL
         WHERE tenant_id = ?1 AND session_key = ?2",
        params![tenant, key],
    )?;
    put_parts(connection, lease, &finish.parts, finish.now)?;
    let announced = finish.announce.as_deref().map(|told| announce(connection, lease, told)).transpose()?;
    let more = first(
        connection,
        "SELECT 1 AS one FROM runs WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued' LIMIT 1",
        params![tenant, key],
        |row| column::<i64>(row, "one"),
    )?;
    Ok(Finished { head_seq, more: more.is_some(), usage, announced })
}

/// Tells another conversation of the tenant. Its turn comes like any other's.
fn announce(connection: &Connection, lease: &Lease, told: &Accept) -> Result<Accepted> {
    StoreError::unless_own(&told.principal, &told.key)?;
    if told.key.scope.tenant != *lease.tenant() {
        return Err(StoreError::NotFound(format!("session {}", told.key.label())));
    }
    accept(connection, &Accept { claim: false, ..told.clone() })
}

/// Ends the run, settles its budgets and answers what all its calls used.
fn end_run(connection: &Connection, lease: &Lease, finish: &Finish, used: &Usage) -> Result<Usage> {
    let state = finish.ending.state();
    let (error, code) = match &finish.ending {
        Ending::Completed(_) => (None, None),
        Ending::Failed(error) | Ending::Aborted(error) => (Some(to_json(error)?), Some(error.code.as_str())),
    };
    let ended = first(
        connection,
        "UPDATE runs SET state = ?3, error_json = ?4, token_input = token_input + ?5,
           token_output = token_output + ?6, token_cache_read = token_cache_read + ?7,
           token_cache_write = token_cache_write + ?8, cost = cost + ?9, finished_at = ?10,
           settled = CASE WHEN reservation_json IS NOT NULL THEN ?11 END
         WHERE tenant_id = ?1 AND id = ?2
         RETURNING reservation_json, token_input, token_output, token_cache_read, token_cache_write, cost",
        params![
            lease.tenant().as_str(),
            lease.run.to_string(),
            state.as_str(),
            error,
            countable(used.input),
            countable(used.output),
            countable(used.cache_read),
            countable(used.cache_write),
            countable(used.cost.0),
            finish.now,
            Settled::Used.as_str()
        ],
        |row| Ok((json_or_none::<Reserved>(row, "reservation_json")?, usage(row)?)),
    )?;
    let (reserved, total) = ended.unwrap_or_default();
    let mut changes = BudgetChanges::default();
    if let Some(reserved) = reserved {
        changes.finish(&reserved, used);
    }
    if finish.ending.ends_started() {
        end_started(connection, &finish.principal, lease.run, finish.now, &mut changes)?;
    }
    apply(connection, lease.tenant(), &changes)?;
    execute(
        connection,
        "UPDATE tool_runs SET status = 'interrupted' WHERE tenant_id = ?1 AND run_id = ?2 AND status = 'intended'",
        params![lease.tenant().as_str(), lease.run.to_string()],
    )?;
    cancel_of_run(connection, lease.tenant(), lease.run, finish.now)?;
    let mut metadata = json!({
        "sessionKey": lease.key.to_string(),
        "sessionId": lease.session.to_string(),
        "attempt": lease.attempt,
    });
    if let Some(code) = code {
        metadata["code"] = code.into();
    }
    let audit = Audit {
        tenant: lease.tenant(),
        actor: finish.principal.actor(),
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &lease.run.to_string(),
        metadata,
    };
    record(connection, &audit, finish.now)?;
    Ok(total)
}

/// The log counts what its run used since the last step, and remembers how full the model's window is.
fn note_use(connection: &Connection, lease: &Lease, finish: &Finish, used: &Usage) -> Result<()> {
    execute(
        connection,
        "UPDATE sessions SET token_input = token_input + ?3, token_output = token_output + ?4,
           token_cache_read = token_cache_read + ?5, token_cache_write = token_cache_write + ?6, cost = cost + ?7,
           context_tokens = coalesce(?8, context_tokens)
         WHERE tenant_id = ?1 AND id = ?2",
        params![
            lease.tenant().as_str(),
            lease.session.to_string(),
            countable(used.input),
            countable(used.output),
            countable(used.cache_read),
            countable(used.cache_write),
            countable(used.cost.0),
            finish.context_tokens.map(countable)
        ],
    )?;
    Ok(())
}

/// The key has no current log any more.
fn close_current(connection: &Connection, lease: &Lease) -> Result<()> {
    let of_key = params![lease.tenant().as_str(), lease.key.to_string()];
    execute(
        connection,
        "UPDATE sessions SET state = 'closed'
         WHERE tenant_id = ?1 AND id = (SELECT session_id FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2)",
        of_key,
    )?;
    execute(
        connection,
        "UPDATE session_keys SET session_id = NULL WHERE tenant_id = ?1 AND session_key = ?2",
        of_key,
    )?;
    Ok(())
}

/// Whether the run's messages are in the log already: its last answer may be there before its end.
fn has_spoken(connection: &Connection, lease: &Lease) -> Result<bool> {
    let spoken = first(
        connection,
        "SELECT EXISTS (SELECT 1 FROM entries e WHERE e.tenant_id = ?1 AND e.session_id = ?2 AND e.run_id = ?3
           AND e.seq >= r.first_seq AND e.kind <> 'compaction') AS spoken
         FROM runs r WHERE r.tenant_id = ?1 AND r.id = ?3",
        params![lease.tenant().as_str(), lease.session.to_string(), lease.run.to_string()],
        |row| column(row, "spoken"),
    )?;
    Ok(spoken.unwrap_or(false))
}

/// The key moves to this run's log.
fn make_current(connection: &Connection, lease: &Lease) -> Result<()> {
    let (tenant, key, session) = (lease.tenant().as_str(), lease.key.to_string(), lease.session.to_string());
    execute(
        connection,
        "UPDATE sessions SET state = 'closed'
         WHERE tenant_id = ?1 AND id = (SELECT session_id FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2)
           AND id <> ?3",
        params![tenant, key, session],
    )?;
    execute(
        connection,
        "UPDATE session_keys SET session_id = ?3 WHERE tenant_id = ?1 AND session_key = ?2 AND session_id IS NOT ?3",
        params![tenant, key, session],
    )?;
    execute(
        connection,
        "UPDATE sessions SET state = 'current' WHERE tenant_id = ?1 AND id = ?2 AND state <> 'current'",
        params![tenant, session],
    )?;
    Ok(())
}

/// The log remembers who answered.
fn note_origin(connection: &Connection, lease: &Lease, origin: &Origin) -> Result<()> {
    execute(
        connection,
        "UPDATE sessions SET route = ?3, provider = ?4, profile_id = ?5 WHERE tenant_id = ?1 AND id = ?2",
        params![
            lease.tenant().as_str(),
            lease.session.to_string(),
            origin.route,
            origin.provider,
            origin.profile_id
        ],
    )?;
    Ok(())
}

/// Stores parts of the run's reply, after those that it has already.
pub(crate) fn put_parts(connection: &Connection, lease: &Lease, parts: &[NewPart], now: i64) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let last: Option<u32> = first(
        connection,
        "SELECT coalesce(max(part), 0) AS last FROM outbox WHERE tenant_id = ?1 AND run_id = ?2",
        params![lease.tenant().as_str(), lease.run.to_string()],
        |row| column(row, "last"),
    )?;
    for (part, number) in parts.iter().zip(last.unwrap_or(0) + 1..) {
        put_part(connection, lease, part, number, now)?;
    }
    Ok(())
}

fn put_part(connection: &Connection, lease: &Lease, part: &NewPart, number: u32, now: i64) -> Result<()> {
    execute(
        connection,
        "INSERT INTO outbox (tenant_id, id, run_id, part, channel, account_id, lane, body, state, attempt, retry_at,
           created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending', 0, 0, ?9, ?9)",
        params![
            lease.tenant().as_str(),
            part.id.to_string(),
            lease.run.to_string(),
            number,
            part.channel.as_str(),
            part.account_id,
            part.lane,
            part.body,
            now
        ],
    )?;
    Ok(())
}
