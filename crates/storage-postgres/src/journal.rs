//! The run's own verbs: a step, what it reads, and what it sums up.

use async_trait::async_trait;
use sqlx::PgConnection;
use tidegate_protocol::{EntryBody, JoinMode};
use tidegate_storage::{
    Absorb, Absorbed, Context, ContextLimits, Journal, Lease, Library as _, Meter, NewCall, NewCompaction,
    NewEntry, NewToolRun, Result, Step, StoreError, ToolOutcome, ToolRunRow,
};

use crate::absorb::{absorb, is_joined};
use crate::append::{append, hold};
use crate::context::context;
use crate::error::TxResult;
use crate::finish::put_parts;
use crate::ledger;
use crate::open::PostgresStore;
use crate::rows::{column, to_json};
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Journal for PostgresStore {
    async fn step(&self, lease: &Lease, step: Step) -> Result<i64> {
        let step = &step;
        self.write_as(lease.tenant(), &lease.owner, verb!("step"), |Open { transaction, .. }| {
            Box::pin(take_step(transaction, lease, step))
        })
        .await
    }

    async fn context(&self, lease: &Lease, limits: ContextLimits) -> Result<Context> {
        self.read(lease.tenant(), |Open { transaction, .. }| Box::pin(context(transaction, lease, limits)))
            .await
    }

    async fn steps(&self, lease: &Lease) -> Result<Vec<ToolRunRow>> {
        self.tool_runs(lease.tenant(), lease.run).await
    }

    async fn compact(&self, lease: &Lease, compaction: NewCompaction) -> Result<i64> {
        let compaction = &compaction;
        self.write_as(lease.tenant(), &lease.owner, verb!("compact"), |Open { transaction, .. }| {
            Box::pin(compact(transaction, lease, compaction))
        })
        .await
    }

    async fn absorb(&self, lease: &Lease, wish: Absorb) -> Result<Vec<Absorbed>> {
        let wish = &wish;
        self.write_as(lease.tenant(), &lease.owner, verb!("absorb"), |Open { transaction, .. }| {
            Box::pin(absorb(transaction, lease, wish))
        })
        .await
    }

    async fn is_joined(&self, lease: &Lease, mode: JoinMode) -> Result<bool> {
        self.read(lease.tenant(), |Open { transaction, .. }| Box::pin(is_joined(transaction, lease, mode)))
            .await
    }

    async fn note_flush(&self, lease: &Lease, now: i64) -> Result<bool> {
        self.write_as(lease.tenant(), &lease.owner, verb!("note_flush"), |Open { transaction, .. }| {
            Box::pin(note_flush(transaction, lease, now))
        })
        .await
    }
}

async fn take_step(transaction: &mut PgConnection, lease: &Lease, step: &Step) -> TxResult<i64> {
    hold(transaction, lease, step.now).await?;
    for outcome in &step.ended {
        end_tool(transaction, lease, outcome).await?;
    }
    let head = append(transaction, lease, &step.entries, step.now).await?;
    for tool in &step.begun {
        begin_tool(transaction, lease, tool, step.now).await?;
    }
    if let Some(worked) = step.worked_ms {
        note_worked(transaction, lease, worked).await?;
    }
    // Lanes before budgets, as FINISH takes them.
    put_parts(transaction, lease, &step.parts, step.now).await?;
    charge(transaction, lease, &step.calls, step.now).await?;
    Ok(head)
}

async fn note_worked(transaction: &mut PgConnection, lease: &Lease, worked_ms: u64) -> TxResult<()> {
    sqlx::query("UPDATE runs SET worked_ms = $3 WHERE tenant_id = $1 AND id = $2")
        .bind(lease.tenant().as_str())
        .bind(lease.run.to_string())
        .bind(i64::try_from(worked_ms).unwrap_or(i64::MAX))
        .execute(transaction)
        .await?;
    Ok(())
}

async fn begin_tool(
    transaction: &mut PgConnection,
    lease: &Lease,
    tool: &NewToolRun,
    now: i64,
) -> TxResult<()> {
    sqlx::query(
        "INSERT INTO tool_runs (tenant_id, id, session_id, run_id, step, call_id, tool_name, args_json,
           status, created_at)
         VALUES ($1, $2, $3, $4, (SELECT count(*) + 1 FROM tool_runs WHERE tenant_id = $1 AND run_id = $4),
           $5, $6, $7, 'intended', $8)",
    )
    .bind(lease.tenant().as_str())
    .bind(tool.id.to_string())
    .bind(lease.session.to_string())
    .bind(lease.run.to_string())
    .bind(store(&tool.call_id))
    .bind(store(&tool.tool_name))
    .bind(to_json(&tool.args)?)
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(())
}

async fn end_tool(transaction: &mut PgConnection, lease: &Lease, outcome: &ToolOutcome) -> TxResult<()> {
    let touched = sqlx::query(
        "UPDATE tool_runs SET status = $4, result_json = $5
         WHERE tenant_id = $1 AND run_id = $2 AND id = $3 AND status = 'intended'",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.run.to_string())
    .bind(outcome.tool_run.to_string())
    .bind(outcome.state.as_str())
    .bind(to_json(&outcome.result)?)
    .execute(transaction)
    .await?;
    if touched.rows_affected() == 1 {
        Ok(())
    } else {
        Err(StoreError::NotFound(format!("an open intent {}", outcome.tool_run)).into())
    }
}

/// Writes the run's calls down; its budgets count them from now on.
async fn charge(transaction: &mut PgConnection, lease: &Lease, calls: &[NewCall], now: i64) -> TxResult<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let meter = Meter { run: Some(lease.run), calls: calls.to_vec(), now };
    ledger::put(transaction, lease.tenant(), &meter).await
}

async fn compact(transaction: &mut PgConnection, lease: &Lease, new: &NewCompaction) -> TxResult<i64> {
    hold(transaction, lease, new.now).await?;
    let (tenant, session) = (lease.tenant().as_str(), lease.session.to_string());
    let log = sqlx::query("SELECT floor_seq, head_seq FROM sessions WHERE tenant_id = $1 AND id = $2")
        .bind(tenant)
        .bind(&session)
        .fetch_optional(&mut *transaction)
        .await?;
    let (floor, head) = match &log {
        Some(log) => (column(log, "floor_seq")?, column(log, "head_seq")?),
        None => (0, 0),
    };
    new.check(floor, head)?;
    let entry = NewEntry { id: new.id, body: EntryBody::Compaction(new.compaction.clone()) };
    let seq = append(transaction, lease, &[entry], new.now).await?;
    sqlx::query(
        "UPDATE sessions SET floor_seq = $3, compactions = compactions + 1 WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant)
    .bind(session)
    .bind(new.compaction.first_kept_seq - 1)
    .execute(&mut *transaction)
    .await?;
    charge(transaction, lease, &new.calls, new.now).await?;
    Ok(seq)
}

async fn note_flush(transaction: &mut PgConnection, lease: &Lease, now: i64) -> TxResult<bool> {
    hold(transaction, lease, now).await?;
    let noted = sqlx::query(
        "UPDATE sessions SET flushed_at = $3, flushed_compactions = compactions
         WHERE tenant_id = $1 AND id = $2 AND flushed_compactions IS DISTINCT FROM compactions",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.session.to_string())
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(noted.rows_affected() == 1)
}
