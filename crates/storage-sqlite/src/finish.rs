//! FINISH on SQLite.

use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::Origin;
use tidegate_storage::{BudgetChanges, Ending, Finish, Finished, Lease, NewPart, Reserved, Result, Settled};

use crate::append::{append, hold};
use crate::approval::cancel_of_run;
use crate::audit::{Audit, record};
use crate::budget::apply;
use crate::ledger::insert_calls;
use crate::rows::{column, execute, first, json_or_none, to_json};

pub(crate) fn finish(connection: &Connection, lease: &Lease, finish: &Finish) -> Result<Finished> {
    let (tenant, key) = (lease.tenant().as_str(), lease.key.to_string());
    hold(connection, lease, finish.now)?;
    let head_seq = append(connection, lease, &finish.entries, finish.now)?;
    end_run(connection, lease, finish)?;
    // A log begins with its first entry; a run that wrote none has no log to move to.
    if let Ending::Completed(origin) = &finish.ending
        && head_seq > 0
    {
        make_current(connection, lease, origin)?;
    }
    execute(
        connection,
        "UPDATE session_keys SET active_run = NULL, owner_instance = NULL, owner_incarnation = NULL
         WHERE tenant_id = ?1 AND session_key = ?2",
        params![tenant, key],
    )?;
    for (part, number) in finish.parts.iter().zip(1..) {
        put_part(connection, lease, part, number, finish.now)?;
    }
    let more = first(
        connection,
        "SELECT 1 AS one FROM runs WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued' LIMIT 1",
        params![tenant, key],
        |row| column::<i64>(row, "one"),
    )?;
    Ok(Finished { head_seq, more: more.is_some() })
}

fn end_run(connection: &Connection, lease: &Lease, finish: &Finish) -> Result<()> {
    let state = finish.ending.state();
    let (error, code) = match &finish.ending {
        Ending::Completed(_) => (None, None),
        Ending::Failed(error) | Ending::Aborted(error) => (Some(to_json(error)?), Some(error.code.as_str())),
    };
    let usage = &finish.usage;
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let reserved = first(
        connection,
        "UPDATE runs SET state = ?3, error_json = ?4, token_input = ?5, token_output = ?6, token_cache_read = ?7,
           token_cache_write = ?8, cost = ?9, finished_at = ?10,
           settled = CASE WHEN reservation_json IS NOT NULL THEN ?11 END
         WHERE tenant_id = ?1 AND id = ?2
         RETURNING reservation_json",
        params![
            lease.tenant().as_str(),
            lease.run.to_string(),
            state.as_str(),
            error,
            count(usage.input),
            count(usage.output),
            count(usage.cache_read),
            count(usage.cache_write),
            count(usage.cost.0),
            finish.now,
            Settled::Used.as_str()
        ],
        |row| json_or_none::<Reserved>(row, "reservation_json"),
    )?;
    spend(connection, lease, finish, reserved.flatten().as_ref())?;
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
    record(connection, &audit, finish.now)
}

/// Writes down the run's calls, and lets its budgets count what they used in place of what was reserved.
fn spend(connection: &Connection, lease: &Lease, finish: &Finish, reserved: Option<&Reserved>) -> Result<()> {
    let used = insert_calls(connection, lease.tenant(), Some(lease.run), &finish.calls)?;
    let Some(reserved) = reserved else { return Ok(()) };
    let mut changes = BudgetChanges::default();
    changes.finish(reserved, &used);
    apply(connection, lease.tenant(), &changes)
}

/// The key moves to this run's log, and the log remembers who answered.
fn make_current(connection: &Connection, lease: &Lease, origin: &Origin) -> Result<()> {
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
        "UPDATE sessions SET state = 'current', route = ?3, provider = ?4, profile_id = ?5
         WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session, origin.route, origin.provider, origin.profile_id],
    )?;
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
