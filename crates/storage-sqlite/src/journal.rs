//! The run's own verbs: a step, what it reads, and what it sums up.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tidegate_protocol::{EntryBody, JoinMode};
use tidegate_storage::{
    Absorb, Absorbed, Context, ContextLimits, Journal, Lease, Meter, NewCall, NewCompaction, NewEntry,
    NewToolRun, Result, Step, StoreError, ToolOutcome, ToolRunRow,
};

use crate::absorb::{absorb, is_joined};
use crate::append::{append, hold};
use crate::context::context;
use crate::finish::put_parts;
use crate::ledger;
use crate::library::tool_runs;
use crate::open::SqliteStore;
use crate::rows::{column, execute, first, to_json};
use crate::writer::verb;

#[async_trait]
impl Journal for SqliteStore {
    async fn step(&self, lease: &Lease, step: Step) -> Result<i64> {
        let lease = lease.clone();
        self.write(verb!("step"), move |connection| take_step(connection, &lease, step)).await
    }

    async fn context(&self, lease: &Lease, limits: ContextLimits) -> Result<Context> {
        let lease = lease.clone();
        self.read(move |connection| context(connection, &lease, limits)).await
    }

    async fn steps(&self, lease: &Lease) -> Result<Vec<ToolRunRow>> {
        let (tenant, run) = (lease.tenant().clone(), lease.run);
        self.read(move |connection| tool_runs(connection, &tenant, run)).await
    }

    async fn compact(&self, lease: &Lease, compaction: NewCompaction) -> Result<i64> {
        let lease = lease.clone();
        self.write(verb!("compact"), move |connection| compact(connection, &lease, compaction)).await
    }

    async fn absorb(&self, lease: &Lease, wish: Absorb) -> Result<Vec<Absorbed>> {
        let lease = lease.clone();
        self.write(verb!("absorb"), move |connection| absorb(connection, &lease, &wish)).await
    }

    async fn is_joined(&self, lease: &Lease, mode: JoinMode) -> Result<bool> {
        let lease = lease.clone();
        self.read(move |connection| is_joined(connection, &lease, mode)).await
    }

    async fn note_flush(&self, lease: &Lease, now: i64) -> Result<bool> {
        let lease = lease.clone();
        self.write(verb!("note_flush"), move |connection| {
            hold(connection, &lease, now)?;
            let noted = execute(
                connection,
                "UPDATE sessions SET flushed_at = ?3, flushed_compactions = compactions
                 WHERE tenant_id = ?1 AND id = ?2 AND flushed_compactions IS NOT compactions",
                params![lease.tenant().as_str(), lease.session.to_string(), now],
            )?;
            Ok(noted == 1)
        })
        .await
    }
}

fn take_step(connection: &Connection, lease: &Lease, step: Step) -> Result<i64> {
    hold(connection, lease, step.now)?;
    for outcome in &step.ended {
        end_tool(connection, lease, outcome)?;
    }
    let head = append(connection, lease, &step.entries, step.now)?;
    for tool in &step.begun {
        begin_tool(connection, lease, tool, step.now)?;
    }
    charge(connection, lease, step.calls, step.now)?;
    if let Some(worked) = step.worked_ms {
        note_worked(connection, lease, worked)?;
    }
    put_parts(connection, lease, &step.parts, step.now)?;
    Ok(head)
}

fn note_worked(connection: &Connection, lease: &Lease, worked_ms: u64) -> Result<()> {
    let worked = i64::try_from(worked_ms).unwrap_or(i64::MAX);
    execute(
        connection,
        "UPDATE runs SET worked_ms = ?3 WHERE tenant_id = ?1 AND id = ?2",
        params![lease.tenant().as_str(), lease.run.to_string(), worked],
    )?;
    Ok(())
}

fn begin_tool(connection: &Connection, lease: &Lease, tool: &NewToolRun, now: i64) -> Result<()> {
    execute(
        connection,
        "INSERT INTO tool_runs (tenant_id, id, session_id, run_id, step, call_id, tool_name, args_json, status,
           created_at)
         VALUES (?1, ?2, ?3, ?4, (SELECT count(*) + 1 FROM tool_runs WHERE tenant_id = ?1 AND run_id = ?4), ?5, ?6, ?7,
           'intended', ?8)",
        params![
            lease.tenant().as_str(),
            tool.id.to_string(),
            lease.session.to_string(),
            lease.run.to_string(),
            tool.call_id,
            tool.tool_name,
            to_json(&tool.args)?,
            now
        ],
    )?;
    Ok(())
}

fn end_tool(connection: &Connection, lease: &Lease, outcome: &ToolOutcome) -> Result<()> {
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

/// Writes the run's calls down; its budgets count them from now on.
fn charge(connection: &Connection, lease: &Lease, calls: Vec<NewCall>, now: i64) -> Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    ledger::put(connection, lease.tenant(), &Meter { run: Some(lease.run), calls, now })
}

fn compact(connection: &Connection, lease: &Lease, new: NewCompaction) -> Result<i64> {
    hold(connection, lease, new.now)?;
    let (tenant, session) = (lease.tenant().as_str(), lease.session.to_string());
    let log = first(
        connection,
        "SELECT floor_seq, head_seq FROM sessions WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session],
        |row| Ok((column::<i64>(row, "floor_seq")?, column::<i64>(row, "head_seq")?)),
    )?;
    let (floor, head) = log.unwrap_or((0, 0));
    let first_kept = new.compaction.first_kept_seq;
    new.check(floor, head)?;
    let entry = NewEntry { id: new.id, body: EntryBody::Compaction(new.compaction) };
    let seq = append(connection, lease, &[entry], new.now)?;
    execute(
        connection,
        "UPDATE sessions SET floor_seq = ?3, compactions = compactions + 1 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, session, first_kept - 1],
    )?;
    charge(connection, lease, new.calls, new.now)?;
    Ok(seq)
}
