//! Making a log from the beginning of another one.

use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{ChannelName, EntryBody, SessionId};
use tidegate_storage::{Fork, Forked, Principal, StoreError};

use crate::append::partner;
use crate::audit::{Audit, record};
use crate::chain::{Segment, segments};
use crate::context::summary;
use crate::error::TxResult;
use crate::rows::parsed_or_none;
use crate::text::store;

/// Where the new log begins.
struct Root {
    /// The log whose own line is the last one shared.
    parent: SessionId,
    head_entry: String,
    floor: i64,
    compactions: u32,
}

pub(crate) async fn fork(
    transaction: &mut PgConnection,
    principal: &Principal,
    fork: &Fork,
) -> TxResult<Forked> {
    let tenant = fork.key.scope.tenant.as_str();
    // The key's row first, as every writer does.
    let before = take_key(transaction, fork).await?;
    let root = root(transaction, tenant, fork).await?;
    if let Some(before) = before {
        sqlx::query("UPDATE sessions SET state = 'closed' WHERE tenant_id = $1 AND id = $2")
            .bind(tenant)
            .bind(before.to_string())
            .execute(&mut *transaction)
            .await?;
    }
    insert(transaction, fork, &root).await?;
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
    record(transaction, &audit, fork.now).await?;
    Ok(Forked { session: fork.new_session.id, before })
}

/// Finds the line. The log that holds it itself becomes the parent, so that forks of forks do not make long chains.
async fn root(transaction: &mut PgConnection, tenant: &str, fork: &Fork) -> TxResult<Root> {
    let seq = fork.after_seq;
    let missing = || StoreError::NotFound(format!("line {seq} of session {}", fork.source));
    // Whoever removes the source's key meanwhile waits, and finds the fork.
    let head: Option<i64> =
        sqlx::query_scalar("SELECT head_seq FROM sessions WHERE tenant_id = $1 AND id = $2 FOR SHARE")
            .bind(tenant)
            .bind(fork.source.to_string())
            .fetch_optional(&mut *transaction)
            .await?;
    if seq < 0 || head.is_none_or(|head| head < seq) {
        return Err(missing().into());
    }
    let chain = segments(transaction, tenant, fork.source, 0).await?;
    let shared: Vec<Segment> = chain
        .into_iter()
        .filter(|segment| segment.after < seq)
        .map(|segment| Segment { upto: segment.upto.min(seq), ..segment })
        .collect();
    let Some(holder) = shared.first() else {
        return Ok(Root { parent: fork.source, head_entry: String::new(), floor: 0, compactions: 0 });
    };
    let head_entry = sqlx::query_scalar(
        "SELECT e.id FROM entries e JOIN sessions s ON s.tenant_id = e.tenant_id AND s.id = e.session_id
         WHERE e.tenant_id = $1 AND e.session_id = $2 AND e.seq = $3 FOR SHARE OF s",
    )
    .bind(tenant)
    .bind(holder.session.to_string())
    .bind(seq)
    .fetch_optional(&mut *transaction)
    .await?;
    let floor = match summary(transaction, tenant, &shared).await?.map(|entry| entry.body) {
        Some(EntryBody::Compaction(compaction)) => compaction.first_kept_seq - 1,
        _ => 0,
    };
    let mut compactions = 0;
    for segment in &shared {
        compactions += segment.summaries(transaction, tenant).await?;
    }
    Ok(Root { parent: holder.session, head_entry: head_entry.ok_or_else(missing)?, floor, compactions })
}

/// Makes the new log the key's current one, if nothing of the key is under way. Answers the one before.
async fn take_key(transaction: &mut PgConnection, fork: &Fork) -> TxResult<Option<SessionId>> {
    let (tenant, key) = (fork.key.scope.tenant.as_str(), fork.key.to_string());
    let before = sqlx::query(
        "SELECT session_id FROM session_keys WHERE tenant_id = $1 AND session_key = $2 FOR UPDATE",
    )
    .bind(tenant)
    .bind(&key)
    .fetch_optional(&mut *transaction)
    .await?;
    let before = before.map(|row| parsed_or_none(&row, "session_id")).transpose()?;
    sqlx::query(
        "INSERT INTO session_keys (tenant_id, session_key, session_id, fence, next_queue, updated_at)
         VALUES ($1, $2, $3, 0, 1, $4)
         ON CONFLICT (tenant_id, session_key) DO UPDATE SET session_id = $3, updated_at = $4",
    )
    .bind(tenant)
    .bind(&key)
    .bind(fork.new_session.id.to_string())
    .bind(fork.now)
    .execute(&mut *transaction)
    .await?;
    // Under the row's lock: nothing is accepted behind our back.
    let busy: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM session_keys
             WHERE tenant_id = $1 AND session_key = $2 AND active_run IS NOT NULL)
           OR EXISTS (SELECT 1 FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued')",
    )
    .bind(tenant)
    .bind(&key)
    .fetch_one(transaction)
    .await?;
    if busy { Err(StoreError::SessionBusy.into()) } else { Ok(before.flatten()) }
}

/// Its transcript begins with its own lines. A title is kept, since the beginning is.
async fn insert(transaction: &mut PgConnection, fork: &Fork, root: &Root) -> TxResult<()> {
    let (channel, peer) = partner(&fork.key);
    let scope = &fork.key.scope;
    sqlx::query(
        "INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, alias, channel, peer_key,
           thread_key, state, head_seq, head_entry, floor_seq, mirrored_seq, created_at, updated_at, title, parent_id,
           fork_seq, compactions)
         VALUES ($1, $2, $3, $4, $5,
           CASE WHEN NOT EXISTS (SELECT 1 FROM sessions WHERE tenant_id = $1 AND alias = $6) THEN $6 END,
           $7, $8, $9, 'current', $10, $11, $12,
           CASE WHEN EXISTS (SELECT 1 FROM session_keys WHERE tenant_id = $1 AND session_key = $5
               AND ephemeral_since IS NOT NULL)
             THEN 9223372036854775807 ELSE $10 END,
           $13, $13,
           CASE WHEN $10 > 0 THEN (SELECT title FROM sessions WHERE tenant_id = $1 AND id = $14) END,
           $15, $10, $16)",
    )
    .bind(scope.tenant.as_str())
    .bind(fork.new_session.id.to_string())
    .bind(scope.workspace.as_str())
    .bind(scope.agent.as_str())
    .bind(fork.key.to_string())
    .bind(fork.new_session.alias.as_deref().map(store))
    .bind(channel.map(ChannelName::as_str))
    .bind(peer.map(|peer| store(peer)))
    .bind(fork.key.thread.as_deref().map(store))
    .bind(fork.after_seq)
    .bind(&root.head_entry)
    .bind(root.floor)
    .bind(fork.now)
    .bind(fork.source.to_string())
    .bind(root.parent.to_string())
    .bind(i64::from(root.compactions))
    .execute(transaction)
    .await?;
    Ok(())
}
