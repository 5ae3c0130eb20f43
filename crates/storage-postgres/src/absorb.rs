//! Messages that join the run under way.

use serde_json::json;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{JoinMode, Message, RunId};
use tidegate_storage::{
    Absorb, Absorbed, BudgetChanges, JoinHost, Joiner, Lease, MOST_ABSORBED, NewEntry, Reserved, Result,
    Settled,
};

use crate::append::{append, hold};
use crate::audit::{Audit, record};
use crate::budget::apply;
use crate::claim::choice_of;
use crate::error::TxResult;
use crate::finish::put_parts;
use crate::instance::owner_of;
use crate::rows::{column, json as stored, json_or_none, parsed, text};
use crate::settle::reply_of;

/// The run at the head of the session's queue.
struct Head {
    run: RunId,
    joiner: Joiner,
    actor: String,
    input: Message,
    reserved: Option<Reserved>,
}

pub(crate) async fn absorb(
    transaction: &mut PgConnection,
    lease: &Lease,
    wish: &Absorb,
) -> TxResult<Vec<Absorbed>> {
    let now = wish.now;
    hold(transaction, lease, now).await?;
    let host = host(transaction, lease).await?;
    let mut changes = BudgetChanges::default();
    let mut absorbed = Vec::new();
    while absorbed.len() < MOST_ABSORBED
        && let Some(head) = head(transaction, lease).await?
    {
        if !head.joiner.joins(wish.mode, &host) {
            break;
        }
        join(transaction, lease, &head, now).await?;
        if let Some(reserved) = &head.reserved {
            changes.end(reserved, Settled::Returned);
        }
        absorbed.push(Absorbed { run: head.run, input: head.input });
    }
    let entries: Vec<NewEntry> = absorbed.iter().map(Absorbed::entry).collect();
    append(transaction, lease, &entries, now).await?;
    if !absorbed.is_empty() {
        put_parts(transaction, lease, &wish.parts, now).await?;
    }
    apply(transaction, lease.tenant(), &changes).await?;
    Ok(absorbed)
}

pub(crate) async fn is_joined(
    transaction: &mut PgConnection,
    lease: &Lease,
    mode: JoinMode,
) -> TxResult<bool> {
    let Some(head) = head(transaction, lease).await? else { return Ok(false) };
    Ok(head.joiner.joins(mode, &host(transaction, lease).await?))
}

/// The run that holds the lease.
async fn host(transaction: &mut PgConnection, lease: &Lease) -> TxResult<JoinHost> {
    let row = sqlx::query(
        "SELECT r.reply_json, r.spec_json, s.updated_at FROM runs r
         LEFT JOIN sessions s ON s.tenant_id = $1 AND s.id = $3 WHERE r.tenant_id = $1 AND r.id = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.run.to_string())
    .bind(lease.session.to_string())
    .fetch_one(transaction)
    .await?;
    let (reply, spec) = (reply_of(&row)?, json_or_none(&row, "spec_json").unwrap_or_default());
    Ok(JoinHost { owner: lease.owner, reply, spec, written_at: column(&row, "updated_at")? })
}

async fn head(transaction: &mut PgConnection, lease: &Lease) -> TxResult<Option<Head>> {
    let row = sqlx::query(
        "SELECT id, actor, input_json, reply_json, spec_json, join_mode, fresh, fresh_before, started_at, refusal_json,
           reservation_json, owner_instance, owner_incarnation
         FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued' ORDER BY queue LIMIT 1",
    )
    .bind(lease.tenant().as_str())
    .bind(lease.key.to_string())
    .fetch_optional(transaction)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Head {
        run: parsed(&row, "id")?,
        joiner: joiner(&row)?,
        actor: text(&row, "actor")?,
        input: stored(&row, "input_json")?,
        reserved: json_or_none(&row, "reservation_json")?,
    }))
}

fn joiner(row: &PgRow) -> Result<Joiner> {
    Ok(Joiner {
        join: column::<Option<&str>>(row, "join_mode")?.and_then(JoinMode::parse),
        reply: reply_of(row)?,
        spec: json_or_none(row, "spec_json").unwrap_or_default(),
        owner: owner_of(row)?,
        choice: choice_of(row)?,
        begun: column::<Option<i64>>(row, "started_at")?.is_some(),
        refused: column::<Option<&str>>(row, "refusal_json")?.is_some(),
    })
}

/// Ends the run as one that another took in. It never began, so what it reserved is given back.
async fn join(transaction: &mut PgConnection, lease: &Lease, head: &Head, now: i64) -> TxResult<()> {
    sqlx::query(
        "UPDATE runs SET state = 'joined', joined_run = $3, finished_at = $4,
           settled = CASE WHEN reservation_json IS NOT NULL THEN $5 END
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(lease.tenant().as_str())
    .bind(head.run.to_string())
    .bind(lease.run.to_string())
    .bind(now)
    .bind(Settled::Returned.as_str())
    .execute(&mut *transaction)
    .await?;
    let audit = Audit {
        tenant: lease.tenant(),
        actor: &head.actor,
        action: "agent.run.joined",
        resource_type: "run",
        resource_id: &head.run.to_string(),
        metadata: json!({ "sessionKey": lease.key.to_string(), "joinedRun": lease.run.to_string() }),
    };
    record(transaction, &audit, now).await
}
