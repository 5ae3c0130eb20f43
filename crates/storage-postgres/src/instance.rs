//! Incarnations, heartbeats, and settling what a dead process held.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{InstanceId, OutboxId, ReplyTarget, RunId, RunState, SessionKey, TenantId};
use tidegate_storage::{Instances, Owner, Recovered, Result, SettledRun, StoreError, after_crash};

use crate::audit::{Audit, record};
use crate::error::TxResult;
use crate::open::PostgresStore;
use crate::outbox::drop_rest;
use crate::rows::{collect, column, parsed, text, to_json, unsigned};
use crate::transaction::{Open, verb};

#[async_trait]
impl Instances for PostgresStore {
    async fn enlist(&self, instance: InstanceId, _now: i64) -> Result<Owner> {
        self.write_instances(verb!("enlist"), |Open { transaction, .. }| {
            Box::pin(enlist(transaction, instance))
        })
        .await
    }

    async fn heartbeat(&self, owner: &Owner, _now: i64) -> Result<()> {
        self.write_instances(verb!("heartbeat"), |Open { transaction, .. }| {
            Box::pin(heartbeat(transaction, owner))
        })
        .await
    }

    /// One transaction a tenant: what was settled before a crash stays settled, and the next start finds the rest.
    async fn recover(&self, owner: &Owner, now: i64) -> Result<Recovered> {
        self.may_write()?;
        let mut recovered = Recovered::default();
        let left =
            self.read_across(|Open { transaction, .. }| Box::pin(left_behind(transaction, owner))).await?;
        for (tenant, left) in left {
            let settled = self
                .write(&tenant, verb!("recover"), |Open { transaction, .. }| {
                    Box::pin(recover_tenant(transaction, &tenant, &left, owner, now))
                })
                .await?;
            recovered.runs.extend(settled.runs);
            recovered.unknown_sends.extend(settled.unknown_sends);
        }
        Ok(recovered)
    }
}

/// Refuses an owner that a newer incarnation has made void, or that never enlisted.
pub(crate) async fn check_current(transaction: &mut PgConnection, owner: &Owner) -> TxResult<()> {
    let current: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM instances WHERE id = $1 AND incarnation = $2)")
            .bind(owner.instance.to_string())
            .bind(owner.incarnation)
            .fetch_one(transaction)
            .await?;
    if current { Ok(()) } else { Err(StoreError::StaleFence.into()) }
}

/// The database's clock counts, not the caller's: instances on other machines compare it with theirs.
async fn enlist(transaction: &mut PgConnection, instance: InstanceId) -> TxResult<Owner> {
    let incarnation = sqlx::query_scalar(
        "INSERT INTO instances AS i (id, incarnation, heartbeat_at) VALUES ($1, 1, database_now())
         ON CONFLICT (id) DO UPDATE SET incarnation = i.incarnation + 1, heartbeat_at = database_now()
         RETURNING i.incarnation",
    )
    .bind(instance.to_string())
    .fetch_one(transaction)
    .await?;
    Ok(Owner { instance, incarnation })
}

async fn heartbeat(transaction: &mut PgConnection, owner: &Owner) -> TxResult<()> {
    let sql = "UPDATE instances SET heartbeat_at = database_now() WHERE id = $1 AND incarnation = $2";
    let touched = sqlx::query(sql)
        .bind(owner.instance.to_string())
        .bind(owner.incarnation)
        .execute(transaction)
        .await?;
    if touched.rows_affected() == 1 { Ok(()) } else { Err(StoreError::StaleFence.into()) }
}

/// What earlier incarnations of an instance left in one tenant.
#[derive(Debug, Default)]
struct Left {
    keys: Vec<SessionKey>,
    sends: Vec<OutboxId>,
}

/// Ids across tenants; nothing else crosses.
async fn left_behind(connection: &mut PgConnection, owner: &Owner) -> TxResult<BTreeMap<TenantId, Left>> {
    let mut left = BTreeMap::<TenantId, Left>::new();
    let (instance, incarnation) = (owner.instance.to_string(), owner.incarnation);
    let held = sqlx::query("SELECT tenant_id, session_key FROM tidegate_held($1, $2)")
        .bind(&instance)
        .bind(incarnation)
        .fetch_all(&mut *connection)
        .await?;
    for row in held {
        left.entry(parsed(&row, "tenant_id")?).or_default().keys.push(parsed(&row, "session_key")?);
    }
    let sends = sqlx::query("SELECT tenant_id, id FROM tidegate_sending($1, $2)")
        .bind(&instance)
        .bind(incarnation)
        .fetch_all(connection)
        .await?;
    for row in sends {
        left.entry(parsed(&row, "tenant_id")?).or_default().sends.push(parsed(&row, "id")?);
    }
    Ok(left)
}

/// Looks again under the locks: another instance may have taken some of it over by now.
async fn recover_tenant(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    left: &Left,
    owner: &Owner,
    now: i64,
) -> TxResult<Recovered> {
    let mut recovered = Recovered::default();
    for key in &left.keys {
        let held = sqlx::query(
            "SELECT active_run FROM session_keys
             WHERE tenant_id = $1 AND session_key = $2 AND active_run IS NOT NULL
               AND owner_instance = $3 AND owner_incarnation < $4
             FOR UPDATE",
        )
        .bind(tenant.as_str())
        .bind(key.to_string())
        .bind(owner.instance.to_string())
        .bind(owner.incarnation)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = held else { continue };
        let run = parsed(&row, "active_run")?;
        if let Some(state) = settle_session(transaction, key, run, now).await? {
            recovered.runs.push(SettledRun { run, key: key.clone(), state });
        }
    }
    let ids: Vec<String> = left.sends.iter().map(ToString::to_string).collect();
    let unanswered = sqlx::query(
        "WITH lost AS (
           UPDATE outbox SET state = 'unknown', reason = 'the process died while sending', owner_instance = NULL,
             owner_incarnation = NULL, updated_at = $5
           WHERE tenant_id = $1 AND id = ANY($2) AND state = 'sending'
             AND owner_instance = $3 AND owner_incarnation < $4
           RETURNING ord, id, run_id)
         SELECT id, run_id FROM lost ORDER BY ord",
    )
    .bind(tenant.as_str())
    .bind(ids)
    .bind(owner.instance.to_string())
    .bind(owner.incarnation)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for (id, run) in collect(&unanswered, |row| Ok((parsed(row, "id")?, parsed(row, "run_id")?)))? {
        drop_rest(transaction, tenant.as_str(), run, now).await?;
        recovered.unknown_sends.push(id);
    }
    Ok(recovered)
}

/// Takes a session from its void holder: nobody writes under the old fence again, and the run gets its next state.
/// `None` when the run is in a state of a newer release: it is left alone. Call with the session's row locked.
pub(crate) async fn settle_session(
    transaction: &mut PgConnection,
    key: &SessionKey,
    run: RunId,
    now: i64,
) -> TxResult<Option<RunState>> {
    let (tenant, id) = (key.scope.tenant.as_str(), run.to_string());
    sqlx::query(
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = $3
         WHERE tenant_id = $1 AND session_key = $2",
    )
    .bind(tenant)
    .bind(key.to_string())
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    let found =
        sqlx::query("SELECT state, attempt, reply_json, actor FROM runs WHERE tenant_id = $1 AND id = $2")
            .bind(tenant)
            .bind(&id)
            .fetch_optional(&mut *transaction)
            .await?;
    let Some(row) = found else {
        return Err(StoreError::Damaged(format!("the session's run {id} does not exist")).into());
    };
    if RunState::parse(column(&row, "state")?) != RunState::Running {
        return Ok(None);
    }
    interrupt_tools(transaction, tenant, run).await?;
    let attempt = unsigned(&row, "attempt")?;
    // A reply target of a newer release is somebody to answer, so the run is worth another try.
    let reply = serde_json::from_str::<ReplyTarget>(column(&row, "reply_json")?).ok();
    let Some((state, error)) = after_crash(reply.as_ref(), attempt) else {
        sqlx::query("UPDATE runs SET state = 'queued' WHERE tenant_id = $1 AND id = $2")
            .bind(tenant)
            .bind(id)
            .execute(transaction)
            .await?;
        return Ok(Some(RunState::Queued));
    };
    sqlx::query(
        "UPDATE runs SET state = $3, error_json = $4, finished_at = $5 WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant)
    .bind(&id)
    .bind(state.as_str())
    .bind(to_json(&error)?)
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    let audit = Audit {
        tenant: &key.scope.tenant,
        actor: &text(&row, "actor")?,
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key.to_string(), "attempt": attempt, "code": error.code }),
    };
    record(transaction, &audit, now).await?;
    Ok(Some(state))
}

/// Whether these tools ran is unknown, and is never found out by running them again.
pub(crate) async fn interrupt_tools(
    transaction: &mut PgConnection,
    tenant: &str,
    run: RunId,
) -> TxResult<()> {
    sqlx::query(
        "UPDATE tool_runs SET status = 'interrupted'
         WHERE tenant_id = $1 AND run_id = $2 AND status = 'intended'",
    )
    .bind(tenant)
    .bind(run.to_string())
    .execute(transaction)
    .await?;
    Ok(())
}
