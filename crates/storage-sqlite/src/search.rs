//! Looking through the lines. A scan: what can match is found by SQLite, what does match here.

use rusqlite::{Connection, Params, Row, params};
use tidegate_protocol::{AgentId, Entry, TenantId};
use tidegate_storage::{Result, Search};

use crate::chain::{Segment, entry, segments};
use crate::error::store_error;
use crate::rows::{column, first};

pub(crate) fn search(connection: &Connection, tenant: &TenantId, wanted: &Search) -> Result<Vec<Entry>> {
    let (tenant, needle) = (tenant.as_str(), wanted.needle());
    let mut found = Vec::new();
    let Some(session) = wanted.session else {
        // Sorted without their bodies, which are long.
        let sql = "SELECT session_id, seq FROM entries WHERE tenant_id = ?1 AND instr(lower(body), ?2) > 0
                     AND (?3 IS NULL OR EXISTS (SELECT 1 FROM sessions s
                       WHERE s.tenant_id = ?1 AND s.id = entries.session_id AND s.agent_id = ?3))
                   ORDER BY created_at DESC, seq DESC, id DESC";
        let agent = wanted.agent.as_ref().map(AgentId::as_str);
        keep(connection, sql, params![tenant, needle, agent], wanted, &mut found, |row| {
            let place = params![tenant, column::<String>(row, "session_id")?, column::<i64>(row, "seq")?];
            let sql = "SELECT * FROM entries WHERE tenant_id = ?1 AND session_id = ?2 AND seq = ?3";
            first(connection, sql, place, entry)
        })?;
        return Ok(found);
    };
    for Segment { session, after, upto } in segments(connection, tenant, session, 0)? {
        let sql = "SELECT * FROM entries
                   WHERE tenant_id = ?1 AND instr(lower(body), ?2) > 0 AND session_id = ?3 AND seq > ?4 AND seq <= ?5
                   ORDER BY seq DESC";
        let of_segment = params![tenant, needle, session.to_string(), after, upto];
        keep(connection, sql, of_segment, wanted, &mut found, |row| entry(row).map(Some))?;
    }
    Ok(found)
}

/// Keeps the lines that match, until there are enough.
fn keep(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    wanted: &Search,
    found: &mut Vec<Entry>,
    read: impl Fn(&Row<'_>) -> Result<Option<Entry>>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    while found.len() < wanted.limit as usize
        && let Some(row) = rows.next().map_err(store_error)?
    {
        found.extend(read(row)?.filter(|entry| wanted.finds(&entry.body)));
    }
    Ok(())
}
