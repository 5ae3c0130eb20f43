//! Making a log from the beginning of another one.

use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::{ChannelName, EntryBody, SessionId};
use tidegate_storage::{Fork, Forked, Principal, Result, StoreError};

use crate::append::partner;
use crate::audit::{Audit, record};
use crate::chain::{Segment, segments};
use crate::context::{line, summary};
use crate::rows::{column, execute, first, parsed_or_none};

/// Where the new log begins.
struct Root {
    /// The log whose own line is the last one shared.
    parent: SessionId,
    head_entry: String,
    floor: i64,
    compactions: u32,
}

pub(crate) fn fork(connection: &Connection, principal: &Principal, fork: &Fork) -> Result<Forked> {
    let tenant = fork.key.scope.tenant.as_str();
    let before = take_key(connection, fork)?;
    let root = root(connection, tenant, fork)?;
    if let Some(before) = before {
        execute(
            connection,
            "UPDATE sessions SET state = 'closed' WHERE tenant_id = ?1 AND id = ?2",
            params![tenant, before.to_string()],
        )?;
    }
    insert(connection, fork, &root)?;
    let audit = Audit {
        tenant: &fork.key.scope.tenant,
        actor: principal.actor(),
        action: "session.fork",
        resource_type: "session",
        resource_id: &fork.key.to_string(),
        metadata: json!({
            "sessionId": fork.new_session.id.to_string(),
            "source": fork.source.to_string(),
            "afterSeq": fork.after_seq,
        }),
    };
    record(connection, &audit, fork.now)?;
    Ok(Forked { session: fork.new_session.id, before })
}

/// Finds the line. The log that holds it itself becomes the parent, so that forks of forks do not make long chains.
fn root(connection: &Connection, tenant: &str, fork: &Fork) -> Result<Root> {
    let seq = fork.after_seq;
    let missing = || StoreError::NotFound(format!("line {seq} of session {}", fork.source));
    let known = first(
        connection,
        "SELECT 1 AS one FROM sessions WHERE tenant_id = ?1 AND id = ?2 AND head_seq >= ?3",
        params![tenant, fork.source.to_string(), seq.max(0)],
        |row| column::<i64>(row, "one"),
    )?;
    if known.is_none() || seq < 0 {
        return Err(missing());
    }
    let chain = segments(connection, tenant, fork.source, 0)?;
    let shared: Vec<Segment> = chain
        .into_iter()
        .filter(|segment| segment.after < seq)
        .map(|segment| Segment { upto: segment.upto.min(seq), ..segment })
        .collect();
    let Some(holder) = shared.first() else {
        return Ok(Root { parent: fork.source, head_entry: String::new(), floor: 0, compactions: 0 });
    };
    let head_entry = line(connection, tenant, holder.session, seq, |row| column(row, "id"))?;
    let floor = match summary(connection, tenant, &shared)?.map(|entry| entry.body) {
        Some(EntryBody::Compaction(compaction)) => compaction.first_kept_seq - 1,
        _ => 0,
    };
    let mut compactions = 0;
    for segment in &shared {
        compactions += segment.summaries(connection, tenant)?;
    }
    Ok(Root { parent: holder.session, head_entry: head_entry.ok_or_else(missing)?, floor, compactions })
}

/// Makes the new log the key's current one, if nothing of the key is under way. Answers the one before.
fn take_key(connection: &Connection, fork: &Fork) -> Result<Option<SessionId>> {
    let (tenant, key) = (fork.key.scope.tenant.as_str(), fork.key.to_string());
    let busy = first(
        connection,
        "SELECT 1 AS one FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2 AND active_run IS NOT NULL
         UNION ALL
         SELECT 1 FROM runs INDEXED BY runs_queue WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued'",
        params![tenant, key],
        |row| column::<i64>(row, "one"),
    )?;
    if busy.is_some() {
        return Err(StoreError::SessionBusy);
    }
    let before = first(
        connection,
        "SELECT session_id FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2",
        params![tenant, key],
        |row| parsed_or_none(row, "session_id"),
    )?;
    execute(
        connection,
        "INSERT INTO session_keys (tenant_id, session_key, session_id, fence, next_queue, updated_at)
         VALUES (?1, ?2, ?3, 0, 1, ?4)
         ON CONFLICT (tenant_id, session_key) DO UPDATE SET session_id = ?3, updated_at = ?4",
        params![tenant, key, fork.new_session.id.to_string(), fork.now],
    )?;
    Ok(before.flatten())
}

/// Its transcript begins with its own lines. A title is kept, since the beginning is.
fn insert(connection: &Connection, fork: &Fork, root: &Root) -> Result<()> {
    let (channel, peer) = partner(&fork.key);
    let scope = &fork.key.scope;
    execute(
        connection,
        "INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, alias, channel, peer_key,
           thread_key, state, head_seq, head_entry, floor_seq, mirrored_seq, created_at, updated_at, title, parent_id,
           fork_seq, compactions)
         VALUES (?1, ?2, ?3, ?4, ?5,
           CASE WHEN NOT EXISTS (SELECT 1 FROM sessions WHERE tenant_id = ?1 AND alias = ?6) THEN ?6 END,
           ?7, ?8, ?9, 'current', ?10, ?11, ?12,
           CASE WHEN EXISTS (SELECT 1 FROM session_keys WHERE tenant_id = ?1 AND session_key = ?5
               AND ephemeral_since IS NOT NULL)
             THEN 9223372036854775807 ELSE ?10 END,
           ?13, ?13,
           CASE WHEN ?10 > 0 THEN (SELECT title FROM sessions WHERE tenant_id = ?1 AND id = ?14) END,
           ?15, ?10, ?16)",
        params![
            scope.tenant.as_str(),
            fork.new_session.id.to_string(),
            scope.workspace.as_str(),
            scope.agent.as_str(),
            fork.key.to_string(),
            fork.new_session.alias,
            channel.map(ChannelName::as_str),
            peer,
            fork.key.thread,
            fork.after_seq,
            root.head_entry,
            root.floor,
            fork.now,
            fork.source.to_string(),
            root.parent.to_string(),
            root.compactions,
        ],
    )?;
    Ok(())
}
