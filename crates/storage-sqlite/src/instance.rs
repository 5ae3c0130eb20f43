//! Incarnations, heartbeats, and settling what a dead process held.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::{InstanceId, OutboxId, ReplyTarget, RunId, RunState, SessionKey};
use tidegate_storage::{Instances, Owner, Recovered, Result, SettledRun, StoreError, after_crash};

use crate::audit::{Audit, record};
use crate::open::SqliteStore;
use crate::outbox::drop_rest;
use crate::rows::{collect, column, execute, first, parsed, to_json};
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

fn recover(connection: &Connection, owner: &Owner, now: i64) -> Result<Recovered> {
    let earlier = params![owner.instance.to_string(), owner.incarnation];
    let held = collect(
        connection,
        "SELECT session_key, active_run FROM session_keys
         WHERE active_run IS NOT NULL AND owner_instance = ?1 AND owner_incarnation < ?2
         ORDER BY tenant_id, session_key",
        earlier,
        |row| Ok((parsed::<SessionKey>(row, "session_key")?, parsed::<RunId>(row, "active_run")?)),
    )?;
    let mut recovered = Recovered::default();
    for (key, run) in held {
        if let Some(state) = settle_session(connection, &key, run, now)? {
            recovered.runs.push(SettledRun { run, key, state });
        }
    }
    let sending = collect(
        connection,
        "SELECT tenant_id, id, run_id FROM outbox
         WHERE state = 'sending' AND owner_instance = ?1 AND owner_incarnation < ?2 ORDER BY ord",
        earlier,
        |row| {
            Ok((
                column::<String>(row, "tenant_id")?,
                parsed::<OutboxId>(row, "id")?,
                parsed::<RunId>(row, "run_id")?,
            ))
        },
    )?;
    for (tenant, id, run) in sending {
        execute(
            connection,
            "UPDATE outbox SET state = 'unknown', reason = 'the process died while sending', owner_instance = NULL,
               owner_incarnation = NULL, updated_at = ?3
             WHERE tenant_id = ?1 AND id = ?2",
            params![tenant, id.to_string(), now],
        )?;
        drop_rest(connection, &tenant, run, now)?;
        recovered.unknown_sends.push(id);
    }
    Ok(recovered)
}

/// Takes a session from its void holder: nobody writes under the old fence again, and the run gets its next state.
/// `None` when a newer release wrote the run's state: then the run is left alone.
pub(crate) fn settle_session(
    connection: &Connection,
    key: &SessionKey,
    run: RunId,
    now: i64,
) -> Result<Option<RunState>> {
    let (tenant, id) = (key.scope.tenant.as_str(), run.to_string());
    execute(
        connection,
        "UPDATE session_keys SET fence = fence + 1, active_run = NULL, owner_instance = NULL, owner_incarnation = NULL,
           updated_at = ?3
         WHERE tenant_id = ?1 AND session_key = ?2",
        params![tenant, key.to_string(), now],
    )?;
    let found = first(
        connection,
        "SELECT state, attempt, reply_json, actor FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, id],
        |row| {
            let state = RunState::parse(&column::<String>(row, "state")?);
            Ok((
                state,
                column::<u32>(row, "attempt")?,
                column::<String>(row, "reply_json")?,
                column::<String>(row, "actor")?,
            ))
        },
    )?;
    let Some((state, attempt, reply, actor)) = found else {
        return Err(StoreError::Damaged(format!("the session's run {id} does not exist")));
    };
    if state != RunState::Running {
        return Ok(None);
    }
    execute(
        connection,
        "UPDATE tool_runs SET status = 'interrupted' WHERE tenant_id = ?1 AND run_id = ?2 AND status = 'intended'",
        params![tenant, id],
    )?;
    // A reply target of a newer release is somebody to answer, so the run is worth another try.
    let reply = serde_json::from_str::<ReplyTarget>(&reply).ok();
    let Some((state, error)) = after_crash(reply.as_ref(), attempt) else {
        execute(
            connection,
            "UPDATE runs SET state = 'queued' WHERE tenant_id = ?1 AND id = ?2",
            params![tenant, id],
        )?;
        return Ok(Some(RunState::Queued));
    };
    execute(
        connection,
        "UPDATE runs SET state = ?3, error_json = ?4, finished_at = ?5 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, id, state.as_str(), to_json(&error)?, now],
    )?;
    let audit = Audit {
        tenant: &key.scope.tenant,
        actor: &actor,
        action: &format!("agent.run.{}", state.as_str()),
        resource_type: "run",
        resource_id: &id,
        metadata: json!({ "sessionKey": key.to_string(), "attempt": attempt, "code": error.code }),
    };
    record(connection, &audit, now)?;
    Ok(Some(state))
}
