//! The two statements every run write shares: the fence, and the log's head.

use sqlx::{PgConnection, Row as _};
use tidegate_protocol::{ChannelName, Message, Place, Role, SessionKey};
use tidegate_storage::{Lease, NewEntry, StoreError, title_of};

use crate::error::TxResult;
use crate::text::store;

/// Proves that the lease still holds: nobody took the session, and its owner has no newer incarnation. Every run write
/// begins here, with the fence and the session's row lock in one statement.
pub(crate) async fn hold(transaction: &mut PgConnection, lease: &Lease, now: i64) -> TxResult<()> {
    let held = sqlx::query(
        "UPDATE session_keys SET updated_at = $5
         WHERE tenant_id = $1 AND session_key = $2 AND fence = $3 AND active_run = $4
           AND EXISTS (SELECT 1 FROM instances WHERE id = $6 AND incarnation = $7)",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .bind(lease.fence.0)
    .bind(lease.run.to_string())
    .bind(now)
    .bind(lease.owner.instance.to_string())
    .bind(lease.owner.incarnation)
    .execute(transaction)
    .await?;
    if held.rows_affected() == 1 { Ok(()) } else { Err(StoreError::StaleFence.into()) }
}

/// Appends to the lease's log and answers its head. Begins the log with its first entry. Call after [`hold`]: the
/// session's row lock is what keeps the positions without a gap.
pub(crate) async fn append(
    transaction: &mut PgConnection,
    lease: &Lease,
    entries: &[NewEntry],
    now: i64,
) -> TxResult<i64> {
    let (tenant, session) = (lease.tenant().as_str(), lease.session.to_string());
    if entries.is_empty() {
        let head = sqlx::query_scalar("SELECT head_seq FROM sessions WHERE tenant_id = $1 AND id = $2")
            .bind(tenant)
            .bind(session)
            .fetch_optional(transaction)
            .await?;
        return Ok(head.unwrap_or(0));
    }
    let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
    let (head_seq, parent) = move_head(transaction, lease, count, entries, now).await?;
    let first_seq = head_seq - count + 1;
    let lines = Lines::of(entries, parent)?;
    sqlx::query(
        "INSERT INTO entries (tenant_id, session_id, seq, id, parent_id, run_id, kind, body, created_at)
         SELECT $1, $2, $3 + line.place - 1, line.id, line.parent_id, $4, line.kind, line.body, $5
         FROM unnest($6::text[], $7::text[], $8::text[], $9::text[]) WITH ORDINALITY
           AS line (id, parent_id, kind, body, place)",
    )
    .bind(tenant)
    .bind(&session)
    .bind(first_seq)
    .bind(lease.run.to_string())
    .bind(now)
    .bind(lines.ids)
    .bind(lines.parents)
    .bind(lines.kinds)
    .bind(lines.bodies)
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "UPDATE runs SET first_seq = coalesce(first_seq, $3), last_seq = $4 WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant)
    .bind(lease.run.to_string())
    .bind(first_seq)
    .bind(head_seq)
    .execute(transaction)
    .await?;
    Ok(head_seq)
}

/// The columns of the new entries, in order.
struct Lines {
    ids: Vec<String>,
    parents: Vec<Option<String>>,
    kinds: Vec<String>,
    bodies: Vec<String>,
}

impl Lines {
    fn of(entries: &[NewEntry], mut parent: Option<String>) -> TxResult<Self> {
        let mut lines = Self { ids: Vec::new(), parents: Vec::new(), kinds: Vec::new(), bodies: Vec::new() };
        for entry in entries {
            let (kind, body) =
                entry.body.to_stored().map_err(|error| StoreError::Internal(error.to_string()))?;
            let id = entry.id.to_string();
            lines.parents.push(parent.replace(id.clone()));
            lines.ids.push(id);
            lines.kinds.push(kind.as_str().to_owned());
            lines.bodies.push(body);
        }
        Ok(lines)
    }
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

/// Moves the log's head on by `count`, or begins the log. Answers the new head and the entry that was last before.
/// A short name that another log has by now is left out: the log is found by its id. A log that may be forgotten has no
/// transcript, so it counts as mirrored for ever. What its run used before the log began is the log's own.
async fn move_head(
    transaction: &mut PgConnection,
    lease: &Lease,
    count: i64,
    entries: &[NewEntry],
    now: i64,
) -> TxResult<(i64, Option<String>)> {
    let scope = &lease.key.scope;
    let (channel, peer) = partner(&lease.key);
    let row = sqlx::query(
        "WITH before AS (SELECT nullif(head_entry, '') AS head_entry FROM sessions WHERE tenant_id = $1 AND id = $2),
         moved AS (
           INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, alias, channel, peer_key,
             thread_key, state, head_seq, head_entry, created_at, updated_at, mirrored_seq, title, token_input,
             token_output, token_cache_read, token_cache_write, cost)
           SELECT $1, $2, $3, $4, $5,
             CASE WHEN NOT EXISTS
               (SELECT 1 FROM sessions WHERE tenant_id = $1 AND alias = $6 AND id <> $2) THEN $6 END,
             $7, $8, $9, 'open', $10, $11, $12, $12,
             CASE WHEN EXISTS (SELECT 1 FROM session_keys
               WHERE tenant_id = $1 AND session_key = $5 AND ephemeral_since IS NOT NULL)
               THEN 9223372036854775807 ELSE 0 END,
             $13, r.token_input, r.token_output, r.token_cache_read, r.token_cache_write, r.cost
           FROM runs r WHERE r.tenant_id = $1 AND r.id = $14
           ON CONFLICT (tenant_id, id) DO UPDATE SET
             head_seq = sessions.head_seq + excluded.head_seq, head_entry = excluded.head_entry,
             updated_at = excluded.updated_at,
             title = CASE WHEN sessions.head_seq = 0 THEN coalesce(sessions.title, excluded.title)
               ELSE sessions.title END
           RETURNING head_seq)
         SELECT moved.head_seq, before.head_entry FROM moved LEFT JOIN before ON true",
    )
    .bind(scope.tenant.as_str())
    .bind(lease.session.to_string())
    .bind(scope.workspace.as_str())
    .bind(scope.agent.as_str())
    .bind(lease.key.to_string())
    .bind(lease.alias.as_deref().map(store))
    .bind(channel.map(ChannelName::as_str))
    .bind(peer.map(|peer| store(peer)))
    .bind(lease.key.thread.as_deref().map(store))
    .bind(count)
    .bind(entries.last().map(|last| last.id.to_string()))
    .bind(now)
    .bind(title(entries).as_deref().map(store))
    .bind(lease.run.to_string())
    .fetch_one(transaction)
    .await?;
    Ok((row.try_get("head_seq")?, row.try_get("head_entry")?))
}
