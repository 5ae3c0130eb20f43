//! Parts that did not go out: telling their owner, and what a person decides about them.

use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{OutboxId, RunId, TenantId};
use tidegate_storage::{Decided, OutboxRow, OutboxState, Principal, Result};

use crate::audit::{Audit, record};
use crate::error::TxResult;
use crate::library::{outbox_columns, outbox_row};
use crate::open::{ENGINE, PostgresStore};
use crate::outbox::drop_rest;
use crate::rows::{collect, column, parsed};
use crate::text::store;

/// A part as far as a decision about it depends on it.
struct Part {
    run: RunId,
    number: i64,
    state: OutboxState,
}

/// Finds the part and locks its row.
async fn find(transaction: &mut PgConnection, tenant: &TenantId, id: OutboxId) -> TxResult<Option<Part>> {
    let row =
        sqlx::query("SELECT run_id, part, state FROM outbox WHERE tenant_id = $1 AND id = $2 FOR UPDATE")
            .bind(tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(transaction)
            .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Part {
        run: parsed(&row, "run_id")?,
        number: column(&row, "part")?,
        state: OutboxState::parse(column(&row, "state")?),
    }))
}

pub(crate) async fn retry(
    transaction: &mut PgConnection,
    principal: &Principal,
    id: OutboxId,
    now: i64,
) -> TxResult<Decided> {
    let tenant = principal.tenant();
    let Some(part) = find(transaction, tenant, id).await? else { return Ok(Decided::NotFound) };
    if !part.state.may_be_retried() {
        return Ok(Decided::Refused(part.state));
    }
    let parts = sqlx::query(
        "UPDATE outbox SET state = 'pending', attempt = 0, retry_at = 0, reason = NULL, told_at = NULL,
           requeued_at = $4, updated_at = $4
         WHERE tenant_id = $1 AND run_id = $2 AND (part = $3 OR (part > $3 AND state = 'dropped'))",
    )
    .bind(tenant.as_str())
    .bind(part.run.to_string())
    .bind(part.number)
    .bind(now)
    .execute(&mut *transaction)
    .await?
    .rows_affected();
    note(transaction, principal, id, "outbox.retry", &part, parts, now).await
}

pub(crate) async fn give_up(
    transaction: &mut PgConnection,
    principal: &Principal,
    id: OutboxId,
    now: i64,
) -> TxResult<Decided> {
    let tenant = principal.tenant();
    let Some(part) = find(transaction, tenant, id).await? else { return Ok(Decided::NotFound) };
    if !part.state.may_be_dropped() {
        return Ok(Decided::Refused(part.state));
    }
    sqlx::query(
        "UPDATE outbox SET state = 'dropped', reason = $3, updated_at = $4 WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant.as_str())
    .bind(id.to_string())
    .bind(store(&format!("given up by {principal}")))
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    let rest = drop_rest(transaction, tenant, part.run, part.number, now).await?;
    note(transaction, principal, id, "outbox.drop", &part, rest + 1, now).await
}

async fn note(
    transaction: &mut PgConnection,
    principal: &Principal,
    id: OutboxId,
    action: &str,
    part: &Part,
    parts: u64,
    now: i64,
) -> TxResult<Decided> {
    let parts = u32::try_from(parts).unwrap_or(u32::MAX);
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action,
        resource_type: "outbox",
        resource_id: &id.to_string(),
        metadata: json!({
            "runId": part.run.to_string(),
            "part": part.number,
            "was": part.state.as_str(),
            "parts": parts,
        }),
    };
    record(transaction, &audit, now).await?;
    Ok(Decided::Done { parts })
}

pub(crate) async fn undelivered(
    store: &PostgresStore,
    tenant: &TenantId,
    limit: u32,
) -> Result<Vec<OutboxRow>> {
    if store.version() < ENGINE {
        return Ok(Vec::new());
    }
    let rows = store.rows(tenant, || {
        sqlx::query(concat!(
            "SELECT ",
            outbox_columns!(),
            " FROM outbox WHERE tenant_id = $1 AND state IN ('dead', 'unknown') AND told_at IS NULL AND channel <> ''
             ORDER BY ord LIMIT $2"
        ))
        .bind(tenant.as_str())
        .bind(i64::from(limit))
    });
    collect(&rows.await?, outbox_row)
}

pub(crate) async fn note_told(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    ids: &[OutboxId],
    now: i64,
) -> TxResult<()> {
    sqlx::query(
        "UPDATE outbox SET told_at = $3
         WHERE tenant_id = $1 AND id = ANY($2) AND state IN ('dead', 'unknown') AND told_at IS NULL",
    )
    .bind(tenant.as_str())
    .bind(ids.iter().map(ToString::to_string).collect::<Vec<_>>())
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(())
}
