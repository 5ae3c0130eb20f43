//! Incarnations, heartbeats, and finding what a dead process held.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{InstanceId, SessionKey, TenantId};
use tidegate_storage::{
    BudgetChanges, Instances, Owner, Recovered, Result, SettledRun, StoreError, after_crash,
};

use crate::budget::apply;
use crate::error::TxResult;
use crate::open::PostgresStore;
use crate::rows::{column, parsed, parsed_or_none};
use crate::settle::{interrupt, reply_of, settle_session};
use crate::transaction::{Open, lock_instance, verb};

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
    lock_instance(transaction, instance).await?;
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

/// Whoever a row names as its owner; rows of older releases name nobody.
pub(crate) fn owner_of(row: &PgRow) -> Result<Option<Owner>> {
    let instance: Option<InstanceId> = parsed_or_none(row, "owner_instance")?;
    let incarnation: Option<i64> = column(row, "owner_incarnation")?;
    Ok(instance.zip(incarnation).map(|(instance, incarnation)| Owner { instance, incarnation }))
}

/// Whether the holder can no longer be at work: nobody, an earlier incarnation, or silent for too long by the
/// database's clock.
pub(crate) async fn is_void(
    transaction: &mut PgConnection,
    holder: Option<&Owner>,
    claimant: &Owner,
    ttl_ms: i64,
) -> TxResult<bool> {
    let Some(holder) = holder else { return Ok(true) };
    if holder == claimant {
        return Ok(false);
    }
    // An instance that is not listed cannot say that it lives.
    let void = sqlx::query_scalar(
        "SELECT incarnation > $2 OR heartbeat_at < database_now() - $3 FROM instances WHERE id = $1",
    )
    .bind(holder.instance.to_string())
    .bind(holder.incarnation)
    .bind(ttl_ms)
    .fetch_optional(transaction)
    .await?;
    Ok(void.unwrap_or(true))
}

/// Sessions of one tenant in which earlier incarnations of an instance left something.
#[derive(Debug, Default)]
struct Left {
    held: Vec<SessionKey>,
    /// With a waiting run whose caller is gone.
    abandoned: Vec<SessionKey>,
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
        left.entry(parsed(&row, "tenant_id")?).or_default().held.push(parsed(&row, "session_key")?);
    }
    let abandoned = sqlx::query("SELECT tenant_id, session_key FROM tidegate_abandoned($1, $2)")
        .bind(&instance)
        .bind(incarnation)
        .fetch_all(connection)
        .await?;
    for row in abandoned {
        left.entry(parsed(&row, "tenant_id")?).or_default().abandoned.push(parsed(&row, "session_key")?);
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
    let mut changes = BudgetChanges::default();
    for key in &left.held {
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
        if let Some(state) = settle_session(transaction, key, run, now, &mut changes).await? {
            recovered.runs.push(SettledRun { run, key: key.clone(), state });
        }
    }
    for key in &left.abandoned {
        recovered.runs.extend(end_abandoned(transaction, key, owner, now, &mut changes).await?);
    }
    apply(transaction, tenant, &changes).await?;
    Ok(recovered)
}

/// Ends the session's waiting runs whose callers are gone.
async fn end_abandoned(
    transaction: &mut PgConnection,
    key: &SessionKey,
    owner: &Owner,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<Vec<SettledRun>> {
    // The session's row first, as every writer does; only under its lock are the runs' states certain.
    sqlx::query("SELECT 1 FROM session_keys WHERE tenant_id = $1 AND session_key = $2 FOR UPDATE")
        .bind(key.scope.tenant.as_str())
        .bind(key.to_string())
        .execute(&mut *transaction)
        .await?;
    let rows = sqlx::query(
        "SELECT id, reply_json FROM runs
         WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued'
           AND (owner_instance IS NULL OR (owner_instance = $3 AND owner_incarnation < $4))
         ORDER BY queue",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .bind(owner.instance.to_string())
    .bind(owner.incarnation)
    .fetch_all(&mut *transaction)
    .await?;
    let mut ended = Vec::new();
    for row in rows {
        let run = parsed(&row, "id")?;
        if let Some((state, error)) = after_crash(reply_of(&row)?.as_ref()) {
            interrupt(transaction, key, run, &state, &error, now, changes).await?;
            ended.push(SettledRun { run, key: key.clone(), state });
        }
    }
    Ok(ended)
}
