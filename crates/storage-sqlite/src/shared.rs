//! Lines that a fork of another key still reads when their own key goes.

use rusqlite::{Connection, params};
use tidegate_protocol::TenantId;
use tidegate_storage::Result;

use crate::rows::{collect, column, execute};

/// Gives logs of the key that a log of another key was forked from to that one's key, cut to what the forks share. They
/// are listed no more, and go with their last heir. Call before the key's logs are removed.
pub(crate) fn keep_shared(connection: &Connection, tenant: &TenantId, key: &str) -> Result<()> {
    let of_key = params![tenant.as_str(), key];
    let mut kept = Vec::new();
    // A log that stays has a parent that must stay too.
    loop {
        let given = collect(
            connection,
            "UPDATE sessions SET state = 'shared', alias = NULL, mirrored_seq = 9223372036854775807, session_key = (
               SELECT min(c.session_key) FROM sessions c INDEXED BY sessions_by_parent
               WHERE c.tenant_id = ?1 AND c.parent_id = sessions.id AND c.session_key <> ?2)
             WHERE tenant_id = ?1 AND session_key = ?2 AND EXISTS (
               SELECT 1 FROM sessions c INDEXED BY sessions_by_parent
               WHERE c.tenant_id = ?1 AND c.parent_id = sessions.id AND c.session_key <> ?2)
             RETURNING id",
            of_key,
            |row| column::<String>(row, "id"),
        )?;
        if given.is_empty() {
            break;
        }
        kept.extend(given);
    }
    for id in &kept {
        cut(connection, tenant, key, id)?;
    }
    Ok(())
}

/// Removes the lines that no fork shares.
fn cut(connection: &Connection, tenant: &TenantId, key: &str, id: &str) -> Result<()> {
    let of_log = params![tenant.as_str(), id, key];
    execute(
        connection,
        "UPDATE sessions SET head_seq = (
           SELECT max(c.fork_seq) FROM sessions c INDEXED BY sessions_by_parent
           WHERE c.tenant_id = ?1 AND c.parent_id = ?2 AND c.session_key <> ?3)
         WHERE tenant_id = ?1 AND id = ?2",
        of_log,
    )?;
    execute(
        connection,
        "DELETE FROM entries WHERE tenant_id = ?1 AND session_id = ?2
           AND seq > (SELECT head_seq FROM sessions WHERE tenant_id = ?1 AND id = ?2)",
        params![tenant.as_str(), id],
    )?;
    Ok(())
}
