//! The two statements every run write shares: the fence, and the log's head.

use rusqlite::{Connection, params};
use tidegate_protocol::{ChannelName, Message, Place, Role, SessionKey};
use tidegate_storage::{Lease, NewEntry, Result, StoreError, title_of};

use crate::rows::{column, execute, first};

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
        // A fork of nothing has no entry before its first.
        Some((seq, entry)) => (*seq, Some(entry.clone()).filter(|entry| !entry.is_empty())),
        None => (0, None),
    };
    let Some(last) = entries.last() else { return Ok(seq) };
    let first_seq = seq + 1;
    for entry in entries {
        seq += 1;
        let (kind, body) = entry.body.to_stored().map_err(|error| StoreError::Internal(error.to_string()))?;
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
            let title = (first_seq == 1).then(|| title(entries)).flatten();
            execute(
                connection,
                "UPDATE sessions SET head_seq = ?3, head_entry = ?4, updated_at = ?5, title = coalesce(title, ?6)
                 WHERE tenant_id = ?1 AND id = ?2",
                params![tenant, session, seq, last.id.to_string(), now, title],
            )?;
        }
        None => begin_log(connection, lease, seq, entries, now)?,
    }
    execute(
        connection,
        "UPDATE runs SET first_seq = coalesce(first_seq, ?3), last_seq = ?4 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, lease.run.to_string(), first_seq, seq],
    )?;
    Ok(seq)
}

/// What a log that begins with these entries is called.
fn title(entries: &[NewEntry]) -> Option<String> {
    let messages = entries.iter().filter_map(|entry| entry.body.message());
    messages
        .filter(|message| message.role() == Role::User)
        .map(Message::text)
        .next()
        .and_then(|text| title_of(&text))
}

/// The columns of a log that say whom it is with.
pub(crate) fn partner(key: &SessionKey) -> (Option<&ChannelName>, Option<&String>) {
    match &key.place {
        Place::Main | Place::Named { .. } | Place::Sub { .. } => (None, None),
        Place::Dm { channel, peer, .. } => (channel.as_ref(), Some(peer)),
        Place::Group { channel, id } => (Some(channel), Some(id)),
    }
}

/// Begins the log. A short name that another log has already is left out: then only the id names this one. A log that
/// may be forgotten has no transcript, so it counts as mirrored for ever. What its run used so far is its own.
fn begin_log(
    connection: &Connection,
    lease: &Lease,
    head: i64,
    entries: &[NewEntry],
    now: i64,
) -> Result<()> {
    let scope = &lease.key.scope;
    let (channel, peer) = partner(&lease.key);
    execute(
        connection,
        "INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, alias, channel, peer_key,
           thread_key, state, head_seq, head_entry, created_at, updated_at, mirrored_seq, title, token_input,
           token_output, token_cache_read, token_cache_write, cost)
         SELECT ?1, ?2, ?3, ?4, ?5,
           CASE WHEN NOT EXISTS (SELECT 1 FROM sessions WHERE tenant_id = ?1 AND alias = ?6) THEN ?6 END,
           ?7, ?8, ?9, 'open', ?10, ?11, ?12, ?12,
           CASE WHEN EXISTS (SELECT 1 FROM session_keys WHERE tenant_id = ?1 AND session_key = ?5
               AND ephemeral_since IS NOT NULL)
             THEN 9223372036854775807 ELSE 0 END,
           ?13, r.token_input, r.token_output, r.token_cache_read, r.token_cache_write, r.cost
         FROM runs r WHERE r.tenant_id = ?1 AND r.id = ?14",
        params![
            scope.tenant.as_str(),
            lease.session.to_string(),
            scope.workspace.as_str(),
            scope.agent.as_str(),
            lease.key.to_string(),
            lease.alias,
            channel.map(ChannelName::as_str),
            peer,
            lease.key.thread,
            head,
            entries.last().map(|last| last.id.to_string()).unwrap_or_default(),
            now,
            title(entries),
            lease.run.to_string(),
        ],
    )?;
    Ok(())
}
