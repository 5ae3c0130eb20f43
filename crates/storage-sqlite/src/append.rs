//! The two statements every run write shares: the fence, and the log's head.

use rusqlite::{Connection, params};
use tidegate_protocol::{EntryBody, EntryKind, Place};
use tidegate_storage::{Lease, NewEntry, Result, StoreError};

use crate::rows::{column, execute, first, to_json};

/// Proves that the lease still holds: its fence, and that no newer incarnation of its owner began. Every run write
/// begins here.
pub(crate) fn hold(connection: &Connection, lease: &Lease, now: i64) -> Result<()> {
    let touched = execute(
        connection,
        "UPDATE session_keys SET updated_at = ?5
         WHERE tenant_id = ?1 AND session_key = ?2 AND fence = ?3 AND active_run = ?4
           AND EXISTS (SELECT 1 FROM instances WHERE id = ?6 AND incarnation = ?7)",
        params![
            lease.tenant().as_str(),
            lease.key.to_string(),
            lease.fence.0,
            lease.run.to_string(),
            now,
            lease.owner.instance.to_string(),
            lease.owner.incarnation
        ],
    )?;
    if touched == 1 { Ok(()) } else { Err(StoreError::StaleFence) }
}

/// Appends to the lease's log and answers its head. Begins the log with its first entry. Call after [`hold`].
pub(crate) fn append(connection: &Connection, lease: &Lease, entries: &[NewEntry], now: i64) -> Result<i64> {
    let (tenant, session) = (lease.tenant().as_str(), lease.session.to_string());
    let head = first(
        connection,
        "SELECT head_seq, head_entry FROM sessions WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session],
        |row| Ok((column::<i64>(row, "head_seq")?, column::<String>(row, "head_entry")?)),
    )?;
    let (mut seq, mut parent) = match &head {
        Some((seq, entry)) => (*seq, Some(entry.clone())),
        None => (0, None),
    };
    let Some(last) = entries.last() else { return Ok(seq) };
    let first_seq = seq + 1;
    for entry in entries {
        seq += 1;
        let (kind, body) = match &entry.body {
            EntryBody::Message(message) => (EntryKind::Message, to_json(message)?),
            EntryBody::Unknown(value) => (EntryKind::Unknown("unknown".to_owned()), to_json(value)?),
        };
        let id = entry.id.to_string();
        execute(
            connection,
            "INSERT INTO entries (tenant_id, session_id, seq, id, parent_id, run_id, kind, body, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![tenant, session, seq, id, parent, lease.run.to_string(), kind.as_str(), body, now],
        )?;
        parent = Some(id);
    }
    match head {
        Some(_) => {
            execute(
                connection,
                "UPDATE sessions SET head_seq = ?3, head_entry = ?4, updated_at = ?5 WHERE tenant_id = ?1 AND id = ?2",
                params![tenant, session, seq, last.id.to_string(), now],
            )?;
        }
        None => begin_log(connection, lease, seq, last, now)?,
    }
    execute(
        connection,
        "UPDATE runs SET first_seq = coalesce(first_seq, ?3), last_seq = ?4 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, lease.run.to_string(), first_seq, seq],
    )?;
    Ok(seq)
}

/// Begins the log. A short name that another log has already is left out: then only the id names this one. A log that
/// may be forgotten has no transcript, so it counts as mirrored for ever.
fn begin_log(connection: &Connection, lease: &Lease, head: i64, last: &NewEntry, now: i64) -> Result<()> {
    let scope = &lease.key.scope;
    let (channel, peer) = match &lease.key.place {
        Place::Main | Place::Named { .. } => (None, None),
        Place::Dm { channel, peer, .. } => (channel.as_ref(), Some(peer)),
        Place::Group { channel, id } => (Some(channel), Some(id)),
    };
    execute(
        connection,
        "INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, alias, channel, peer_key,
           thread_key, state, head_seq, head_entry, created_at, updated_at, mirrored_seq)
         VALUES (?1, ?2, ?3, ?4, ?5,
           CASE WHEN NOT EXISTS (SELECT 1 FROM sessions WHERE tenant_id = ?1 AND alias = ?6) THEN ?6 END,
           ?7, ?8, ?9, 'open', ?10, ?11, ?12, ?12,
           CASE WHEN EXISTS (SELECT 1 FROM session_keys WHERE tenant_id = ?1 AND session_key = ?5
               AND ephemeral_since IS NOT NULL)
             THEN 9223372036854775807 ELSE 0 END)",
        params![
            scope.tenant.as_str(),
            lease.session.to_string(),
            scope.workspace.as_str(),
            scope.agent.as_str(),
            lease.key.to_string(),
            lease.alias,
            channel.map(tidegate_protocol::ChannelName::as_str),
            peer,
            lease.key.thread,
            head,
            last.id.to_string(),
            now,
        ],
    )?;
    Ok(())
}
