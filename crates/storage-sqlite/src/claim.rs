//! Claiming a session's next run.

use rusqlite::{Connection, Row, params};
use tidegate_protocol::{InstanceId, RunId, SessionId, SessionKey};
use tidegate_storage::{Claim, Fence, Lease, NewSession, Owner, Result, StoreError};

use crate::instance::{check_current, settle_session};
use crate::rows::{column, execute, first, parsed, parsed_or_none};

/// A run that may be granted.
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    /// Attempts before this one.
    pub(crate) attempt: u32,
    pub(crate) fresh: bool,
    pub(crate) new_session: NewSession,
}

pub(crate) fn claim(
    connection: &Connection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
) -> Result<Claim> {
    let tenant = key.scope.tenant.as_str();
    check_current(connection, owner)?;
    if let Some((run, holder)) = holder(connection, key)? {
        if !is_void(connection, &holder, owner, ttl_ms, now)? {
            return Ok(Claim::Busy { run });
        }
        settle_session(connection, key, run, now)?;
    }
    let next = first(
        connection,
        "SELECT id, attempt, fresh, new_session_id, new_session_alias FROM runs
         WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued' ORDER BY queue LIMIT 1",
        params![tenant, key.to_string()],
        candidate,
    )?;
    match next {
        Some(candidate) => Ok(Claim::Granted(grant(connection, key, owner, candidate, now)?)),
        None => Ok(Claim::Nothing),
    }
}

fn candidate(row: &Row<'_>) -> Result<Candidate> {
    Ok(Candidate {
        run: parsed(row, "id")?,
        attempt: column(row, "attempt")?,
        fresh: column(row, "fresh")?,
        new_session: NewSession {
            id: parsed(row, "new_session_id")?,
            alias: column(row, "new_session_alias")?,
        },
    })
}

fn holder(connection: &Connection, key: &SessionKey) -> Result<Option<(RunId, Owner)>> {
    first(
        connection,
        "SELECT active_run, owner_instance, owner_incarnation FROM session_keys
         WHERE tenant_id = ?1 AND session_key = ?2 AND active_run IS NOT NULL",
        params![key.scope.tenant.as_str(), key.to_string()],
        |row| {
            let instance: InstanceId = parsed(row, "owner_instance")?;
            Ok((
                parsed(row, "active_run")?,
                Owner { instance, incarnation: column(row, "owner_incarnation")? },
            ))
        },
    )
}

/// Whether the holder can no longer be at work: an earlier incarnation, or silent for too long.
fn is_void(connection: &Connection, holder: &Owner, claimant: &Owner, ttl_ms: i64, now: i64) -> Result<bool> {
    if holder == claimant {
        return Ok(false);
    }
    let known = first(
        connection,
        "SELECT incarnation, heartbeat_at FROM instances WHERE id = ?1",
        params![holder.instance.to_string()],
        |row| Ok((column::<i64>(row, "incarnation")?, column::<i64>(row, "heartbeat_at")?)),
    )?;
    Ok(known
        .is_none_or(|(incarnation, heartbeat)| incarnation > holder.incarnation || heartbeat < now - ttl_ms))
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
    let (session, alias) = match current.filter(|_| !candidate.fresh) {
        Some(session) => (session, alias_of(connection, tenant, session)?),
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
    })
}

fn alias_of(connection: &Connection, tenant: &str, session: SessionId) -> Result<Option<String>> {
    let alias = first(
        connection,
        "SELECT alias FROM sessions WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session.to_string()],
        |row| column::<Option<String>>(row, "alias"),
    )?;
    Ok(alias.flatten())
}
