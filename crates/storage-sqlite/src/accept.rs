//! ACCEPT on SQLite.

use rusqlite::{Connection, params};
use tidegate_protocol::{JoinMode, RunId, RunState};
use tidegate_storage::{
    Accept, Accepted, Admission, Booking, Idempotency, Result, SessionChoice, StoreError,
};

use crate::budget::book;
use crate::claim::{Candidate, grant};
use crate::instance::check_current;
use crate::rows::{column, execute, first, parsed, to_json};

pub(crate) fn accept(connection: &Connection, accept: &Accept) -> Result<Accepted> {
    let tenant = accept.key.scope.tenant.as_str();
    let run = accept.run.id;
    check_current(connection, &accept.owner)?;
    if let Some(idempotency) = &accept.idempotency
        && let Some(earlier) = remember(connection, tenant, idempotency, run, accept.now)?
    {
        return Ok(Accepted { run: earlier, admission: Admission::Replayed });
    }
    if let Some(parent) = accept.run.parent {
        check_parent(connection, tenant, parent)?;
    }
    let key = accept.key.to_string();
    let place = take_place(connection, accept, &key)?;
    let waiting: u32 = first(
        connection,
        "SELECT count(*) AS waiting FROM runs WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued'",
        params![tenant, key],
        |row| column(row, "waiting"),
    )?
    .unwrap_or(0);
    let ahead = waiting + u32::from(place.busy);
    let claimed = accept.claim && ahead == 0;
    let booking = book(connection, accept)?;
    insert_run(connection, accept, &key, &place, &booking, claimed)?;
    if let Some((id, inbound)) = &accept.inbound {
        execute(
            connection,
            "INSERT INTO inbox (tenant_id, id, run_id, channel, account_id, message_id, body_json, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                tenant,
                id.to_string(),
                run.to_string(),
                inbound.channel.as_str(),
                inbound.account_id,
                inbound.message.id,
                to_json(inbound)?,
                accept.now
            ],
        )?;
    }
    let admission = if claimed {
        let candidate = Candidate {
            run,
            attempt: 0,
            worked_ms: 0,
            choice: accept.session,
            new_session: accept.new_session.clone(),
            refusal: booking.refusal,
            over_budget: booking.over_budget,
        };
        Admission::Claimed(grant(connection, &accept.key, &accept.owner, candidate, accept.now)?)
    } else {
        Admission::Queued { ahead }
    };
    Ok(Accepted { run, admission })
}

/// Keeps the key, or answers the run it already stands for.
fn remember(
    connection: &Connection,
    tenant: &str,
    idempotency: &Idempotency,
    run: RunId,
    now: i64,
) -> Result<Option<RunId>> {
    let known = first(
        connection,
        "SELECT fingerprint, run_id FROM idempotency WHERE tenant_id = ?1 AND key_hash = ?2 AND expires_at > ?3",
        params![tenant, idempotency.key, now],
        |row| Ok((column::<String>(row, "fingerprint")?, parsed::<RunId>(row, "run_id")?)),
    )?;
    match known {
        Some((fingerprint, earlier)) if fingerprint == idempotency.fingerprint => return Ok(Some(earlier)),
        Some(_) => return Err(StoreError::IdempotencyConflict),
        None => {}
    }
    execute(
        connection,
        "INSERT OR REPLACE INTO idempotency (tenant_id, key_hash, fingerprint, run_id, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![tenant, idempotency.key, idempotency.fingerprint, run.to_string(), now, idempotency.expires_at],
    )?;
    Ok(None)
}

/// A run that has ended starts nothing any more: what ended it took its descendants with it.
fn check_parent(connection: &Connection, tenant: &str, parent: RunId) -> Result<()> {
    let state = first(
        connection,
        "SELECT state FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![tenant, parent.to_string()],
        |row| Ok(RunState::parse(&column::<String>(row, "state")?)),
    )?;
    match state {
        Some(state) if !state.is_terminal() => Ok(()),
        _ => Err(StoreError::StaleFence),
    }
}

struct Turn {
    queue: i64,
    busy: bool,
    ephemeral: bool,
}

/// Makes the session's row if need be and takes the next place in its queue.
/// The request that makes the row decides whether the session may be forgotten.
fn take_place(connection: &Connection, accept: &Accept, key: &str) -> Result<Turn> {
    first(
        connection,
        "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at, ephemeral_since)
         VALUES (?1, ?2, 0, 2, ?3, CASE WHEN ?4 THEN ?3 END)
         ON CONFLICT (tenant_id, session_key) DO UPDATE SET next_queue = next_queue + 1, updated_at = ?3
         RETURNING next_queue - 1 AS queue, active_run IS NOT NULL AS busy,
           ephemeral_since IS NOT NULL AS ephemeral",
        params![accept.key.scope.tenant.as_str(), key, accept.now, accept.ephemeral],
        |row| {
            Ok(Turn {
                queue: column(row, "queue")?,
                busy: column(row, "busy")?,
                ephemeral: column(row, "ephemeral")?,
            })
        },
    )?
    .ok_or_else(|| StoreError::Internal("the session's row gave no place".to_owned()))
}

fn insert_run(
    connection: &Connection,
    accept: &Accept,
    key: &str,
    place: &Turn,
    booking: &Booking,
    claimed: bool,
) -> Result<()> {
    let run = &accept.run;
    execute(
        connection,
        "INSERT INTO runs (tenant_id, id, client_key, session_key, new_session_id, new_session_alias, fresh, state,
           queue, attempt, actor, spec_json, input_json, reply_json, created_at,
           owner_instance, owner_incarnation, idempotency_key, ephemeral, reservation_json, refusal_json,
           over_budget_json, fresh_before, join_mode, parent_run)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
           ?22, ?23, ?24)",
        params![
            accept.key.scope.tenant.as_str(),
            run.id.to_string(),
            run.client_key,
            key,
            accept.new_session.id.to_string(),
            accept.new_session.alias,
            accept.session == SessionChoice::Fresh,
            if claimed { "running" } else { "queued" },
            place.queue,
            accept.principal.actor(),
            to_json(&run.spec)?,
            to_json(&run.input)?,
            to_json(&run.reply)?,
            accept.now,
            accept.owner.instance.to_string(),
            accept.owner.incarnation,
            accept.idempotency.as_ref().map(|idempotency| &idempotency.key),
            place.ephemeral,
            booking.reserved.as_ref().map(to_json).transpose()?,
            booking.refusal.as_ref().map(to_json).transpose()?,
            Some(&booking.over_budget).filter(|over| !over.is_empty()).map(to_json).transpose()?,
            match accept.session {
                SessionChoice::Since(time) => Some(time),
                SessionChoice::Current | SessionChoice::Fresh => None,
            },
            run.join.map(JoinMode::as_str),
            run.parent.map(|parent| parent.to_string()),
        ],
    )?;
    Ok(())
}
