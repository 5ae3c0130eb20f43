//! INTENT, RESULT and the context.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{Entry, EntryBody, SessionId};
use tidegate_storage::{Intent, Journal, Lease, Result, StoreError, ToolOutcome};

use crate::append::{append, hold};
use crate::error::TxResult;
use crate::open::PostgresStore;
use crate::rows::{collect, column, json, parsed, parsed_or_none, to_json};
use crate::text::store;
use crate::transaction::{Open, verb};

/// What [`entry`] reads.
macro_rules! entry_columns {
    () => {
        "session_id, seq, id, parent_id, run_id, kind, body, created_at"
    };
}
pub(crate) use entry_columns;

#[async_trait]
impl Journal for PostgresStore {
    async fn intend(&self, lease: &Lease, intent: Intent) -> Result<()> {
        let intent = &intent;
        self.write_as(lease.tenant(), &lease.owner, verb!("intend"), |Open { transaction, .. }| {
            Box::pin(async move {
                hold(transaction, lease, intent.now).await?;
                put_intent(transaction, lease, intent).await
            })
        })
        .await
    }

    async fn result(&self, lease: &Lease, outcome: ToolOutcome, next: Option<Intent>) -> Result<()> {
        let (outcome, next) = (&outcome, next.as_ref());
        self.write_as(lease.tenant(), &lease.owner, verb!("result"), |Open { transaction, .. }| {
            Box::pin(async move {
                hold(transaction, lease, outcome.now).await?;
                put_result(transaction, lease, outcome).await?;
                match next {
                    Some(next) => put_intent(transaction, lease, next).await,
                    None => Ok(()),
                }
            })
        })
        .await
    }

    /// `coalesce` stays inside the subquery: outside, row-level security would keep the floor out of the index scan,
    /// and a compacted log would be read down to its beginning.
    async fn context(&self, lease: &Lease, limit: u32) -> Result<Vec<Entry>> {
        let rows = self.rows(lease.tenant(), || {
            sqlx::query(concat!(
                "SELECT ",
                entry_columns!(),
                " FROM entries
                 WHERE tenant_id = $1 AND session_id = $2
                   AND seq > (SELECT coalesce(max(floor_seq), 0) FROM sessions WHERE tenant_id = $1 AND id = $2)
                 ORDER BY seq DESC LIMIT $3"
            ))
            .bind(lease.tenant().as_str())
            .bind(lease.session.to_string())
            .bind(i64::from(limit))
        });
        let mut entries = collect(&rows.await?, entry)?;
        entries.reverse();
        Ok(entries)
    }
}

async fn put_intent(transaction: &mut PgConnection, lease: &Lease, intent: &Intent) -> TxResult<()> {
    append(transaction, lease, &intent.entries, intent.now).await?;
    let tool = &intent.tool_run;
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
    .bind(intent.now)
    .execute(transaction)
    .await?;
    Ok(())
}

async fn put_result(transaction: &mut PgConnection, lease: &Lease, outcome: &ToolOutcome) -> TxResult<()> {
    append(transaction, lease, &outcome.entries, outcome.now).await?;
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

pub(crate) fn entry(row: &PgRow) -> Result<Entry> {
    Ok(Entry {
        session_id: parsed::<SessionId>(row, "session_id")?,
        seq: column(row, "seq")?,
        id: parsed(row, "id")?,
        parent_id: parsed_or_none(row, "parent_id")?,
        run_id: parsed(row, "run_id")?,
        created_at: column(row, "created_at")?,
        body: EntryBody::from_stored(column(row, "kind")?, json(row, "body")?),
    })
}
