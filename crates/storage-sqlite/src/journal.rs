//! INTENT, RESULT and the context.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::{Entry, EntryBody, SessionId};
use tidegate_storage::{Intent, Journal, Lease, Result, StoreError, ToolOutcome};

use crate::append::{append, hold};
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, json, parsed, parsed_or_none, to_json};
use crate::writer::verb;

#[async_trait]
impl Journal for SqliteStore {
    async fn intend(&self, lease: &Lease, intent: Intent) -> Result<()> {
        let lease = lease.clone();
        self.write(verb!("intend"), move |connection| {
            hold(connection, &lease, intent.now)?;
            intend(connection, &lease, &intent)
        })
        .await
    }

    async fn result(&self, lease: &Lease, outcome: ToolOutcome, next: Option<Intent>) -> Result<()> {
        let lease = lease.clone();
        self.write(verb!("result"), move |connection| {
            hold(connection, &lease, outcome.now)?;
            result(connection, &lease, &outcome)?;
            next.map_or(Ok(()), |next| intend(connection, &lease, &next))
        })
        .await
    }

    async fn context(&self, lease: &Lease, limit: u32) -> Result<Vec<Entry>> {
        let lease = lease.clone();
        self.read(move |connection| {
            let mut entries = collect(
                connection,
                "SELECT * FROM entries
                 WHERE tenant_id = ?1 AND session_id = ?2 AND seq >
                   coalesce((SELECT floor_seq FROM sessions WHERE tenant_id = ?1 AND id = ?2), 0)
                 ORDER BY seq DESC LIMIT ?3",
                params![lease.tenant().as_str(), lease.session.to_string(), limit],
                entry,
            )?;
            entries.reverse();
            Ok(entries)
        })
        .await
    }
}

fn intend(connection: &Connection, lease: &Lease, intent: &Intent) -> Result<()> {
    append(connection, lease, &intent.entries, intent.now)?;
    let (tenant, run, tool) = (lease.tenant().as_str(), lease.run.to_string(), &intent.tool_run);
    execute(
        connection,
        "INSERT INTO tool_runs (tenant_id, id, session_id, run_id, step, call_id, tool_name, args_json, status,
           created_at)
         VALUES (?1, ?2, ?3, ?4, (SELECT count(*) + 1 FROM tool_runs WHERE tenant_id = ?1 AND run_id = ?4), ?5, ?6, ?7,
           'intended', ?8)",
        params![
            tenant,
            tool.id.to_string(),
            lease.session.to_string(),
            run,
            tool.call_id,
            tool.tool_name,
            to_json(&tool.args)?,
            intent.now
        ],
    )?;
    Ok(())
}

fn result(connection: &Connection, lease: &Lease, outcome: &ToolOutcome) -> Result<()> {
    append(connection, lease, &outcome.entries, outcome.now)?;
    let touched = execute(
        connection,
        "UPDATE tool_runs SET status = ?4, result_json = ?5
         WHERE tenant_id = ?1 AND run_id = ?2 AND id = ?3 AND status = 'intended'",
        params![
            lease.tenant().as_str(),
            lease.run.to_string(),
            outcome.tool_run.to_string(),
            outcome.state.as_str(),
            to_json(&outcome.result)?
        ],
    )?;
    if touched == 1 {
        Ok(())
    } else {
        Err(StoreError::NotFound(format!("an open intent {}", outcome.tool_run)))
    }
}

pub(crate) fn entry(row: &Row<'_>) -> Result<Entry> {
    let kind: String = column(row, "kind")?;
    Ok(Entry {
        session_id: parsed::<SessionId>(row, "session_id")?,
        seq: column(row, "seq")?,
        id: parsed(row, "id")?,
        parent_id: parsed_or_none(row, "parent_id")?,
        run_id: parsed(row, "run_id")?,
        created_at: column(row, "created_at")?,
        body: EntryBody::from_stored(&kind, json(row, "body")?),
    })
}
