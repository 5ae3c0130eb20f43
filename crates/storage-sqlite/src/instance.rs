//! Incarnations, heartbeats, and finding what a dead process held.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::{InstanceId, ReplyTarget, RunId, SessionKey};
use tidegate_storage::{Instances, Owner, Recovered, Result, SettledRun, StoreError, after_crash};

use crate::budget::apply;
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, first, parsed, parsed_or_none};
use crate::settle::{interrupt, reply_of, settle_session};
use crate::writer::verb;

#[async_trait]
impl Instances for SqliteStore {
    async fn enlist(&self, instance: InstanceId, now: i64) -> Result<Owner> {
        self.write(verb!("enlist"), move |connection| enlist(connection, instance, now)).await
    }

    async fn heartbeat(&self, owner: &Owner, now: i64) -> Result<()> {
        let owner = *owner;
        self.write(verb!("heartbeat"), move |connection| {
            let touched = execute(
                connection,
                "UPDATE instances SET heartbeat_at = ?3 WHERE id = ?1 AND incarnation = ?2",
                params![owner.instance.to_string(), owner.incarnation, now],
            )?;
            if touched == 1 { Ok(()) } else { Err(StoreError::StaleFence) }
        })
        .await
    }

    async fn recover(&self, owner: &Owner, now: i64) -> Result<Recovered> {
        let owner = *owner;
        self.write(verb!("recover"), move |connection| recover(connection, &owner, now)).await
    }
}

fn enlist(connection: &Connection, instance: InstanceId, now: i64) -> Result<Owner> {
    let incarnation = first(
        connection,
        "INSERT INTO instances (id, incarnation, heartbeat_at) VALUES (?1, 1, ?2)
         ON CONFLICT (id) DO UPDATE SET incarnation = incarnation + 1, heartbeat_at = ?2
         RETURNING incarnation",
        params![instance.to_string(), now],
        |row| column(row, "incarnation"),
    )?
    .ok_or_else(|| StoreError::Internal("no incarnation was given".to_owned()))?;
    Ok(Owner { instance, incarnation })
}

/// Refuses an owner that a newer incarnation has made void.
pub(crate) fn check_current(connection: &Connection, owner: &Owner) -> Result<()> {
    let current = first(
        connection,
        "SELECT 1 AS one FROM instances WHERE id = ?1 AND incarnation = ?2",
        params![owner.instance.to_string(), owner.incarnation],
        |row| column::<i64>(row, "one"),
    )?;
    current.map(drop).ok_or(StoreError::StaleFence)
}

/// Whoever a row names as its owner; rows of older releases name nobody.
pub(crate) fn owner_of(row: &Row<'_>) -> Result<Option<Owner>> {
    let instance: Option<InstanceId> = parsed_or_none(row, "owner_instance")?;
    let incarnation: Option<i64> = column(row, "owner_incarnation")?;
    Ok(instance.zip(incarnation).map(|(instance, incarnation)| Owner { instance, incarnation }))
}

/// Whether the holder can no longer be at work: nobody, an earlier incarnation, or silent for too long.
pub(crate) fn is_void(
    connection: &Connection,
    holder: Option<&Owner>,
    claimant: &Owner,
    ttl_ms: i64,
    now: i64,
) -> Result<bool> {
    let Some(holder) = holder else { return Ok(true) };
    if holder == claimant {
        return Ok(false);
    }
    let known = first(
        connection,
        "SELECT incarnation, heartbeat_at FROM instances WHERE id = ?1",
        params![holder.instance.to_string()],
        |row| Ok((column::<i64>(row, "incarnation")?, column::<i64>(row, "heartbeat_at")?)),
    )?;
    Ok(known
        .is_none_or(|(incarnation, heartbeat)| incarnation > holder.incarnation || heartbeat < now - ttl_ms))
}

fn recover(connection: &Connection, owner: &Owner, now: i64) -> Result<Recovered> {
    let mut changes = BTreeMap::new();
    let mut recovered = Recovered::default();
    for (key, run) in held_before(connection, owner)? {
        let of_tenant = changes.entry(key.scope.tenant.clone()).or_default();
        if let Some(state) = settle_session(connection, &key, run, now, of_tenant)? {
            recovered.runs.push(SettledRun { run, key, state });
        }
    }
    for (key, run, reply) in queued_before(connection, owner)? {
        if let Some((state, error)) = after_crash(reply.as_ref()) {
            let of_tenant = changes.entry(key.scope.tenant.clone()).or_default();
            interrupt(connection, &key, run, &state, &error, now, of_tenant)?;
            recovered.runs.push(SettledRun { run, key, state });
        }
    }
    for (tenant, changes) in &changes {
        apply(connection, tenant, changes)?;
    }
    Ok(recovered)
}

/// Runs that earlier incarnations of the owner were working on.
fn held_before(connection: &Connection, owner: &Owner) -> Result<Vec<(SessionKey, RunId)>> {
    collect(
        connection,
        "SELECT session_key, active_run FROM session_keys INDEXED BY session_keys_held
         WHERE active_run IS NOT NULL AND owner_instance = ?1 AND owner_incarnation < ?2
         ORDER BY tenant_id, session_key",
        params![owner.instance.to_string(), owner.incarnation],
        |row| Ok((parsed(row, "session_key")?, parsed(row, "active_run")?)),
    )
}

/// Runs that they, or an older release, had accepted and that still wait.
fn queued_before(
    connection: &Connection,
    owner: &Owner,
) -> Result<Vec<(SessionKey, RunId, Option<ReplyTarget>)>> {
    collect(
        connection,
        "SELECT session_key, id, reply_json FROM runs INDEXED BY runs_queue
         WHERE state = 'queued'
           AND (owner_instance IS NULL OR (owner_instance = ?1 AND owner_incarnation < ?2))
         ORDER BY tenant_id, session_key, queue",
        params![owner.instance.to_string(), owner.incarnation],
        |row| Ok((parsed(row, "session_key")?, parsed(row, "id")?, reply_of(row)?)),
    )
}
