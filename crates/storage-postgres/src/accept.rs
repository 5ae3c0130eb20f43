//! ACCEPT on Postgres.

use sqlx::{PgConnection, Row as _};
use tidegate_protocol::{Inbound, InboxId, JoinMode, RunId, RunState};
use tidegate_storage::{Accept, Accepted, Admission, Idempotency, SessionChoice, StoreError};

use crate::budget::book;
use crate::claim::{Candidate, grant};
use crate::error::TxResult;
use crate::instance::check_current;
use crate::rows::{column, parsed, to_json};
use crate::text::store;

pub(crate) async fn accept(transaction: &mut PgConnection, accept: &Accept) -> TxResult<Accepted> {
    let entered = enter(transaction, accept).await?;
    admit(transaction, accept, entered).await
}

/// How far a request is before its budgets are asked.
pub(crate) enum Entered {
    Replayed(RunId),
    /// The run is there and waits behind this many others.
    Queued {
        ahead: u32,
    },
}

/// The first half of ACCEPT: everything but budgets and the claim. Budgets come after every session's row of a
/// transaction: all verbs lock in that order, so nobody waits in a circle.
pub(crate) async fn enter(transaction: &mut PgConnection, accept: &Accept) -> TxResult<Entered> {
    let tenant = accept.key.scope.tenant.as_str();
    check_current(transaction, &accept.owner).await?;
    if let Some(idempotency) = &accept.idempotency
        && let Some(earlier) = remember(transaction, tenant, idempotency, accept.run.id, accept.now).await?
    {
        return Ok(Entered::Replayed(earlier));
    }
    let key = accept.key.to_string();
    let place = take_place(transaction, accept, &key).await?;
    if let Some(parent) = accept.run.parent {
        check_parent(transaction, tenant, parent).await?;
    }
    // A statement of its own: only now, with the session's row locked, are all runs before this one visible.
    let waiting: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued'",
    )
    .bind(tenant)
    .bind(&key)
    .fetch_one(&mut *transaction)
    .await?;
    let ahead = u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(u32::from(place.busy));
    insert_run(transaction, accept, &key, place.queue).await?;
    if let Some((id, inbound)) = &accept.inbound {
        insert_inbox(transaction, accept, *id, inbound).await?;
    }
    Ok(Entered::Queued { ahead })
}

/// The second half: budgets, and the claim if the session is idle.
pub(crate) async fn admit(
    transaction: &mut PgConnection,
    accept: &Accept,
    entered: Entered,
) -> TxResult<Accepted> {
    let ahead = match entered {
        Entered::Replayed(run) => return Ok(Accepted { run, admission: Admission::Replayed }),
        Entered::Queued { ahead } => ahead,
    };
    let booking = book(transaction, accept).await?;
    let admission = if accept.claim && ahead == 0 {
        let candidate = Candidate {
            run: accept.run.id,
            attempt: 0,
            worked_ms: 0,
            choice: accept.session,
            new_session: accept.new_session.clone(),
            refusal: booking.refusal,
            over_budget: booking.over_budget,
        };
        Admission::Claimed(grant(transaction, &accept.key, &accept.owner, candidate, accept.now).await?)
    } else {
        Admission::Queued { ahead }
    };
    Ok(Accepted { run: accept.run.id, admission })
}

/// Keeps the key, or answers the run it already stands for. Whoever comes second with the same key waits here until
/// the first one committed or gave up.
async fn remember(
    transaction: &mut PgConnection,
    tenant: &str,
    idempotency: &Idempotency,
    run: RunId,
    now: i64,
) -> TxResult<Option<RunId>> {
    let kept = sqlx::query(
        "INSERT INTO idempotency (tenant_id, key_hash, fingerprint, run_id, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant_id, key_hash) DO UPDATE SET
           fingerprint = excluded.fingerprint, run_id = excluded.run_id, created_at = excluded.created_at,
           expires_at = excluded.expires_at, answer = NULL
         WHERE idempotency.expires_at <= $5",
    )
    .bind(tenant)
    .bind(&idempotency.key)
    .bind(&idempotency.fingerprint)
    .bind(run.to_string())
    .bind(now)
    .bind(idempotency.expires_at)
    .execute(&mut *transaction)
    .await?;
    if kept.rows_affected() == 1 {
        return Ok(None);
    }
    let row =
        sqlx::query("SELECT fingerprint, run_id FROM idempotency WHERE tenant_id = $1 AND key_hash = $2")
            .bind(tenant)
            .bind(&idempotency.key)
            .fetch_one(transaction)
            .await?;
    if column::<&str>(&row, "fingerprint")? == idempotency.fingerprint {
        Ok(Some(parsed(&row, "run_id")?))
    } else {
        Err(StoreError::IdempotencyConflict.into())
    }
}

/// A run that has ended starts nothing any more: what ended it took its descendants with it. Whoever ends it meanwhile
/// waits, and finds the new one.
async fn check_parent(transaction: &mut PgConnection, tenant: &str, parent: RunId) -> TxResult<()> {
    let state: Option<String> =
        sqlx::query_scalar("SELECT state FROM runs WHERE tenant_id = $1 AND id = $2 FOR SHARE")
            .bind(tenant)
            .bind(parent.to_string())
            .fetch_optional(transaction)
            .await?;
    match state.as_deref().map(RunState::parse) {
        Some(state) if !state.is_terminal() => Ok(()),
        _ => Err(StoreError::StaleFence.into()),
    }
}

struct Turn {
    queue: i64,
    busy: bool,
}

/// Makes the session's row if need be, locks it and takes the next place in its queue. The request that makes the row
/// decides whether the session may be forgotten.
async fn take_place(transaction: &mut PgConnection, accept: &Accept, key: &str) -> TxResult<Turn> {
    let row = sqlx::query(
        "INSERT INTO session_keys AS k (tenant_id, session_key, fence, next_queue, updated_at, ephemeral_since)
         VALUES ($1, $2, 0, 2, $3, CASE WHEN $4 THEN $3 END)
         ON CONFLICT (tenant_id, session_key) DO UPDATE SET next_queue = k.next_queue + 1, updated_at = $3
         RETURNING k.next_queue - 1 AS queue, k.active_run IS NOT NULL AS busy",
    )
    .bind(accept.key.scope.tenant.as_str())
    .bind(key)
    .bind(accept.now)
    .bind(accept.ephemeral)
    .fetch_one(transaction)
    .await?;
    Ok(Turn { queue: row.try_get("queue")?, busy: row.try_get("busy")? })
}

/// The run enters as queued; a claim in the same commit moves it on.
async fn insert_run(transaction: &mut PgConnection, accept: &Accept, key: &str, queue: i64) -> TxResult<()> {
    let run = &accept.run;
    sqlx::query(
        "INSERT INTO runs (tenant_id, id, client_key, session_key, new_session_id, new_session_alias, fresh,
           state, queue, attempt, actor, spec_json, input_json, reply_json, created_at,
           owner_instance, owner_incarnation, idempotency_key, fresh_before, join_mode, parent_run)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', $8, 0, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
    )
    .bind(accept.key.scope.tenant.as_str())
    .bind(run.id.to_string())
    .bind(run.client_key.as_deref().map(store))
    .bind(key)
    .bind(accept.new_session.id.to_string())
    .bind(accept.new_session.alias.as_deref().map(store))
    .bind(accept.session == SessionChoice::Fresh)
    .bind(queue)
    .bind(store(accept.principal.actor()))
    .bind(to_json(&run.spec)?)
    .bind(to_json(&run.input)?)
    .bind(to_json(&run.reply)?)
    .bind(accept.now)
    .bind(accept.owner.instance.to_string())
    .bind(accept.owner.incarnation)
    .bind(accept.idempotency.as_ref().map(|idempotency| idempotency.key.as_str()))
    .bind(match accept.session {
        SessionChoice::Since(time) => Some(time),
        SessionChoice::Current | SessionChoice::Fresh => None,
    })
    .bind(run.join.map(JoinMode::as_str))
    .bind(run.parent.map(|parent| parent.to_string()))
    .execute(transaction)
    .await?;
    Ok(())
}

async fn insert_inbox(
    transaction: &mut PgConnection,
    accept: &Accept,
    id: InboxId,
    inbound: &Inbound,
) -> TxResult<()> {
    sqlx::query(
        "INSERT INTO inbox (tenant_id, id, run_id, channel, account_id, message_id, body_json, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(accept.key.scope.tenant.as_str())
    .bind(id.to_string())
    .bind(accept.run.id.to_string())
    .bind(inbound.channel.as_str())
    .bind(store(&inbound.account_id))
    .bind(store(&inbound.message.id))
    .bind(to_json(inbound)?)
    .bind(accept.now)
    .execute(transaction)
    .await?;
    Ok(())
}
