//! Claiming a session's next run, and finding the sessions that have one.

use rusqlite::{Connection, Row, params};
use tidegate_protocol::{ReplyTarget, RunId, SessionId, SessionKey, TenantId};
use tidegate_storage::{
    BudgetChanges, BudgetExcess, BudgetRefusal, Claim, Fence, Lease, NewSession, Owner, Result,
    SessionChoice, StoreError, Waiting, after_crash,
};

use crate::budget::apply;
use crate::instance::{check_current, is_void, owner_of};
use crate::rows::{collect, column, execute, first, json_or_none, parsed, parsed_or_none, unsigned};
use crate::settle::{interrupt, reply_of, settle_session};

/// A run that may be granted.
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    /// Attempts before this one.
    pub(crate) attempt: u32,
    pub(crate) worked_ms: u64,
    pub(crate) choice: SessionChoice,
    pub(crate) new_session: NewSession,
    pub(crate) refusal: Option<BudgetRefusal>,
    pub(crate) over_budget: Vec<BudgetExcess>,
}

pub(crate) fn claim(
    connection: &Connection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
) -> Result<Claim> {
    check_current(connection, owner)?;
    let mut changes = BudgetChanges::default();
    let claimed = take(connection, key, owner, ttl_ms, now, &mut changes)?;
    apply(connection, &key.scope.tenant, &changes)?;
    Ok(claimed)
}

fn take(
    connection: &Connection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
    changes: &mut BudgetChanges,
) -> Result<Claim> {
    if let Some((run, holder)) = holder(connection, key)? {
        if !is_void(connection, holder.as_ref(), owner, ttl_ms, now)? {
            return Ok(Claim::Busy { run });
        }
        settle_session(connection, key, run, now, changes)?;
    }
    while let Some(next) = next_queued(connection, key)? {
        let end = after_crash(next.reply.as_ref()).filter(|_| next.owner != Some(*owner));
        let Some((state, error)) = end else {
            return Ok(Claim::Granted(grant(connection, key, owner, next.candidate, now)?));
        };
        let run = next.candidate.run;
        if !is_void(connection, next.owner.as_ref(), owner, ttl_ms, now)? {
            return Ok(Claim::Busy { run });
        }
        interrupt(connection, key, run, &state, &error, now, changes)?;
    }
    Ok(Claim::Nothing)
}

/// The oldest run that waits in the session.
struct Queued {
    candidate: Candidate,
    reply: Option<ReplyTarget>,
    owner: Option<Owner>,
}

fn next_queued(connection: &Connection, key: &SessionKey) -> Result<Option<Queued>> {
    first(
        connection,
        "SELECT id, attempt, worked_ms, fresh, fresh_before, new_session_id, new_session_alias, reply_json, owner_instance,
           owner_incarnation, refusal_json, over_budget_json
         FROM runs WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued' ORDER BY queue LIMIT 1",
        params![key.scope.tenant.as_str(), key.to_string()],
        |row| Ok(Queued { candidate: candidate(row)?, reply: reply_of(row)?, owner: owner_of(row)? }),
    )
}

/// Sessions that [`claim`] would do something in. A waiting caller's run is left to its own process while that lives.
pub(crate) fn waiting(
    connection: &Connection,
    tenant: &TenantId,
    owner: &Owner,
    silent_before: i64,
    limit: u32,
) -> Result<Vec<Waiting>> {
    collect(
        connection,
        "WITH live AS (SELECT id, incarnation FROM instances WHERE heartbeat_at >= ?4 OR (id = ?2 AND incarnation = ?3)),
         head AS (
           SELECT session_key, id, created_at, spec_json, reply_json, owner_instance, owner_incarnation, min(queue)
           FROM runs WHERE tenant_id = ?1 AND state = 'queued' GROUP BY session_key),
         found AS (
           SELECT h.session_key, h.id, h.created_at, h.spec_json ->> '$.lane' AS lane FROM head h
           JOIN session_keys k ON k.tenant_id = ?1 AND k.session_key = h.session_key AND k.active_run IS NULL
           WHERE (h.owner_instance IS ?2 AND h.owner_incarnation IS ?3)
             OR h.reply_json NOT LIKE '{\"to\":\"caller\"%'
             OR NOT EXISTS (SELECT 1 FROM live WHERE id = h.owner_instance AND incarnation <= h.owner_incarnation)
           UNION ALL
           SELECT k.session_key, r.id, r.created_at, r.spec_json ->> '$.lane' AS lane
           FROM session_keys k INDEXED BY session_keys_held
           JOIN runs r ON r.tenant_id = ?1 AND r.id = k.active_run
           WHERE k.tenant_id = ?1 AND k.active_run IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM live WHERE id = k.owner_instance AND incarnation <= k.owner_incarnation))
         SELECT session_key, id, lane FROM found
         ORDER BY row_number() OVER (
           PARTITION BY coalesce(lane, session_key LIKE '%/sub:%'),
             -- Up to the end of the agent's name.
             substr(session_key, 1, instr(session_key, '/agent:')
               + instr(substr(session_key, instr(session_key, '/agent:') + 1), '/'))
           ORDER BY created_at, id), created_at, id
         LIMIT ?5",
        params![tenant.as_str(), owner.instance.to_string(), owner.incarnation, silent_before, limit],
        waiting_of,
    )
}

pub(crate) fn next(connection: &Connection, key: &SessionKey) -> Result<Option<Waiting>> {
    first(
        connection,
        "SELECT r.session_key, r.id, r.spec_json ->> '$.lane' AS lane FROM runs r
         JOIN session_keys k ON k.tenant_id = ?1 AND k.session_key = ?2 AND k.active_run IS NULL
         WHERE r.tenant_id = ?1 AND r.session_key = ?2 AND r.state = 'queued' ORDER BY r.queue LIMIT 1",
        params![key.scope.tenant.as_str(), key.to_string()],
        waiting_of,
    )
}

fn waiting_of(row: &Row<'_>) -> Result<Waiting> {
    let lane: Option<String> = column(row, "lane")?;
    Ok(Waiting::stored(parsed(row, "session_key")?, parsed(row, "id")?, lane.as_deref()))
}

fn candidate(row: &Row<'_>) -> Result<Candidate> {
    Ok(Candidate {
        run: parsed(row, "id")?,
        attempt: column(row, "attempt")?,
        worked_ms: unsigned(row, "worked_ms")?,
        choice: choice_of(row)?,
        new_session: NewSession {
            id: parsed(row, "new_session_id")?,
            alias: column(row, "new_session_alias")?,
        },
        refusal: json_or_none(row, "refusal_json")?,
        over_budget: json_or_none(row, "over_budget_json")?.unwrap_or_default(),
    })
}

/// Which log a run wants.
pub(crate) fn choice_of(row: &Row<'_>) -> Result<SessionChoice> {
    Ok(match (column(row, "fresh")?, column(row, "fresh_before")?) {
        (true, _) => SessionChoice::Fresh,
        (false, Some(time)) => SessionChoice::Since(time),
        (false, None) => SessionChoice::Current,
    })
}

fn holder(connection: &Connection, key: &SessionKey) -> Result<Option<(RunId, Option<Owner>)>> {
    first(
        connection,
        "SELECT active_run, owner_instance, owner_incarnation FROM session_keys
         WHERE tenant_id = ?1 AND session_key = ?2 AND active_run IS NOT NULL",
        params![key.scope.tenant.as_str(), key.to_string()],
        |row| Ok((parsed(row, "active_run")?, owner_of(row)?)),
    )
}

/// Gives an idle session's run to the owner: the fence goes up, and the run learns its log.
pub(crate) fn grant(
    connection: &Connection,
    key: &SessionKey,
    owner: &Owner,
    candidate: Candidate,
    now: i64,
) -> Result<Lease> {
    let tenant = key.scope.tenant.as_str();
    let run = candidate.run.to_string();
    let (fence, current) = first(
        connection,
        "UPDATE session_keys SET fence = fence + 1, active_run = ?3, owner_instance = ?4, owner_incarnation = ?5,
           updated_at = ?6
         WHERE tenant_id = ?1 AND session_key = ?2 AND active_run IS NULL
         RETURNING fence, session_id",
        params![tenant, key.to_string(), run, owner.instance.to_string(), owner.incarnation, now],
        |row| Ok((column::<i64>(row, "fence")?, parsed_or_none::<SessionId>(row, "session_id")?)),
    )?
    .ok_or_else(|| StoreError::Internal("a session with a run under way was granted".to_owned()))?;
    let (session, alias) = match current_log(connection, tenant, current, candidate.choice)? {
        Some(current) => current,
        None => (candidate.new_session.id, candidate.new_session.alias),
    };
    let attempt = candidate.attempt + 1;
    execute(
        connection,
        "UPDATE runs SET state = 'running', attempt = ?3, session_id = ?4, started_at = coalesce(started_at, ?5)
         WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, run, attempt, session.to_string(), now],
    )?;
    Ok(Lease {
        key: key.clone(),
        run: candidate.run,
        session,
        alias,
        owner: *owner,
        fence: Fence(fence),
        attempt,
        worked_ms: candidate.worked_ms,
        refusal: candidate.refusal,
        over_budget: candidate.over_budget,
    })
}

/// The current log with its short name, if the run wants to go on with it.
fn current_log(
    connection: &Connection,
    tenant: &str,
    current: Option<SessionId>,
    choice: SessionChoice,
) -> Result<Option<(SessionId, Option<String>)>> {
    let Some(session) = current.filter(|_| choice != SessionChoice::Fresh) else { return Ok(None) };
    let log = first(
        connection,
        "SELECT alias, updated_at FROM sessions WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session.to_string()],
        |row| Ok((column::<Option<String>>(row, "alias")?, column::<i64>(row, "updated_at")?)),
    )?;
    let (alias, written) = log.map_or((None, None), |(alias, written)| (alias, Some(written)));
    let stale = matches!(choice, SessionChoice::Since(time) if written.is_some_and(|written| written < time));
    Ok((!stale).then_some((session, alias)))
}
