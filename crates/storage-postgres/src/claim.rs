//! Claiming a session's next run, and finding the sessions that have one.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{ReplyTarget, RunId, SessionId, SessionKey, TenantId};
use tidegate_storage::{
    BudgetChanges, BudgetExcess, BudgetRefusal, Claim, Fence, Lease, NewSession, Owner, Result,
    SessionChoice, StoreError, Waiting, after_crash,
};

use crate::budget::apply;
use crate::error::TxResult;
use crate::instance::{check_current, is_void, owner_of};
use crate::open::PostgresStore;
use crate::rows::{collect, column, json_or_none, parsed, parsed_or_none, text_or_none, unsigned};
use crate::settle::{interrupt, reply_of, settle_session};

/// A run that may be granted.
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    /// Attempts before this one.
    pub(crate) attempt: u32,
    pub(crate) worked_ms: u64,
    pub(crate) choice: SessionChoice,
    pub(crate) new_session: NewSession,
    pub(crate) refusal: Option<BudgetRefusal>,
    pub(crate) over_budget: Vec<BudgetExcess>,
}

pub(crate) async fn claim(
    transaction: &mut PgConnection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
) -> TxResult<Claim> {
    check_current(transaction, owner).await?;
    let mut changes = BudgetChanges::default();
    let claimed = take(transaction, key, owner, ttl_ms, now, &mut changes).await?;
    apply(transaction, &key.scope.tenant, &changes).await?;
    Ok(claimed)
}

async fn take(
    transaction: &mut PgConnection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
    changes: &mut BudgetChanges,
) -> TxResult<Claim> {
    let Some(holder) = lock(transaction, key).await? else { return Ok(Claim::Nothing) };
    if let Some((run, holder)) = holder {
        if !is_void(transaction, holder.as_ref(), owner, ttl_ms).await? {
            return Ok(Claim::Busy { run });
        }
        settle_session(transaction, key, run, now, changes).await?;
    }
    while let Some(next) = next_queued(transaction, key).await? {
        let end = after_crash(next.reply.as_ref()).filter(|_| next.owner != Some(*owner));
        let Some((state, error)) = end else {
            return Ok(Claim::Granted(grant(transaction, key, owner, next.candidate, now).await?));
        };
        let run = next.candidate.run;
        if !is_void(transaction, next.owner.as_ref(), owner, ttl_ms).await? {
            return Ok(Claim::Busy { run });
        }
        interrupt(transaction, key, run, &state, &error, now, changes).await?;
    }
    Ok(Claim::Nothing)
}

/// The oldest run that waits in the session.
struct Queued {
    candidate: Candidate,
    reply: Option<ReplyTarget>,
    owner: Option<Owner>,
}

async fn next_queued(transaction: &mut PgConnection, key: &SessionKey) -> TxResult<Option<Queued>> {
    let row = sqlx::query(
        "SELECT id, attempt, worked_ms, fresh, fresh_before, new_session_id, new_session_alias, reply_json, owner_instance,
           owner_incarnation, refusal_json, over_budget_json
         FROM runs WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued' ORDER BY queue LIMIT 1",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .fetch_optional(transaction)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Queued { candidate: candidate(&row)?, reply: reply_of(&row)?, owner: owner_of(&row)? }))
}

/// Sessions that [`claim`] would do something in. A waiting caller's run is left to its own process while that lives.
pub(crate) async fn waiting(
    store: &PostgresStore,
    tenant: &TenantId,
    owner: &Owner,
    ttl_ms: i64,
    limit: u32,
) -> Result<Vec<Waiting>> {
    let rows = store.rows(tenant, || {
        sqlx::query(
            "WITH live AS (
               SELECT id, incarnation FROM instances
               WHERE heartbeat_at >= database_now() - $4 OR (id = $2 AND incarnation = $3)),
             head AS (
               SELECT DISTINCT ON (session_key) session_key, id, created_at, spec_json, reply_json, owner_instance,
                 owner_incarnation
               FROM runs WHERE tenant_id = $1 AND state = 'queued' ORDER BY session_key, queue),
             found AS (
               SELECT h.session_key, h.id, h.created_at, h.spec_json::json ->> 'lane' AS lane FROM head h
               JOIN session_keys k ON k.tenant_id = $1 AND k.session_key = h.session_key AND k.active_run IS NULL
               WHERE (h.owner_instance = $2 AND h.owner_incarnation = $3)
                 OR h.reply_json NOT LIKE '{\"to\":\"caller\"%'
                 OR NOT EXISTS (SELECT 1 FROM live WHERE live.id = h.owner_instance
                   AND live.incarnation <= h.owner_incarnation)
               UNION ALL
               SELECT k.session_key, r.id, r.created_at, r.spec_json::json ->> 'lane' AS lane
               FROM session_keys k
               JOIN runs r ON r.tenant_id = $1 AND r.id = k.active_run
               WHERE k.tenant_id = $1 AND k.active_run IS NOT NULL
                 AND NOT EXISTS (SELECT 1 FROM live WHERE live.id = k.owner_instance
                   AND live.incarnation <= k.owner_incarnation))
             SELECT session_key, id, lane FROM found
             ORDER BY row_number() OVER (
               PARTITION BY coalesce(lane, (session_key LIKE '%/sub:%')::text), split_part(session_key, '/', 2),
                 split_part(session_key, '/', 3)
               ORDER BY created_at, id), created_at, id
             LIMIT $5",
        )
        .bind(tenant.as_str())
        .bind(owner.instance.to_string())
        .bind(owner.incarnation)
        .bind(ttl_ms)
        .bind(i64::from(limit))
    });
    collect(&rows.await?, waiting_of)
}

pub(crate) async fn next(store: &PostgresStore, key: &SessionKey) -> Result<Option<Waiting>> {
    let rows = store.rows(&key.scope.tenant, || {
        sqlx::query(
            "SELECT r.session_key, r.id, r.spec_json::json ->> 'lane' AS lane FROM runs r
             JOIN session_keys k ON k.tenant_id = $1 AND k.session_key = $2 AND k.active_run IS NULL
             WHERE r.tenant_id = $1 AND r.session_key = $2 AND r.state = 'queued' ORDER BY r.queue LIMIT 1",
        )
        .bind(key.scope.tenant.as_str())
        .bind(key.to_string())
    });
    rows.await?.first().map(waiting_of).transpose()
}

fn waiting_of(row: &PgRow) -> Result<Waiting> {
    let lane: Option<&str> = column(row, "lane")?;
    Ok(Waiting::stored(parsed(row, "session_key")?, parsed(row, "id")?, lane))
}

fn candidate(row: &PgRow) -> Result<Candidate> {
    Ok(Candidate {
        run: parsed(row, "id")?,
        attempt: unsigned(row, "attempt")?,
        worked_ms: unsigned(row, "worked_ms")?,
        choice: choice_of(row)?,
        new_session: NewSession {
            id: parsed(row, "new_session_id")?,
            alias: text_or_none(row, "new_session_alias")?,
        },
        refusal: json_or_none(row, "refusal_json")?,
        over_budget: json_or_none(row, "over_budget_json")?.unwrap_or_default(),
    })
}

/// Which log a run wants.
pub(crate) fn choice_of(row: &PgRow) -> Result<SessionChoice> {
    Ok(match (column(row, "fresh")?, column(row, "fresh_before")?) {
        (true, _) => SessionChoice::Fresh,
        (false, Some(time)) => SessionChoice::Since(time),
        (false, None) => SessionChoice::Current,
    })
}

/// A session under way: its run, and who holds it.
type Held = (RunId, Option<Owner>);

/// Locks the session's row and says who holds it. `None` when there is no such session.
async fn lock(transaction: &mut PgConnection, key: &SessionKey) -> TxResult<Option<Option<Held>>> {
    let row = sqlx::query(
        "SELECT active_run, owner_instance, owner_incarnation FROM session_keys
         WHERE tenant_id = $1 AND session_key = $2 FOR UPDATE",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .fetch_optional(transaction)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let Some(run) = parsed_or_none::<RunId>(&row, "active_run")? else { return Ok(Some(None)) };
    Ok(Some(Some((run, owner_of(&row)?))))
}

/// Gives an idle session's run to the owner: the fence goes up, and the run learns its log. An owner with a newer
/// incarnation gets nothing. Call with the session's row locked and free.
pub(crate) async fn grant(
    transaction: &mut PgConnection,
    key: &SessionKey,
    owner: &Owner,
    candidate: Candidate,
    now: i64,
) -> TxResult<Lease> {
    let (tenant, run) = (key.scope.tenant.as_str(), candidate.run.to_string());
    let row = sqlx::query(
        "UPDATE session_keys SET fence = fence + 1, active_run = $3, owner_instance = $4,
           owner_incarnation = $5, updated_at = $6
         WHERE tenant_id = $1 AND session_key = $2 AND active_run IS NULL
           AND EXISTS (SELECT 1 FROM instances WHERE id = $4 AND incarnation = $5)
         RETURNING fence, session_id",
    )
    .bind(tenant)
    .bind(key.to_string())
    .bind(&run)
    .bind(owner.instance.to_string())
    .bind(owner.incarnation)
    .bind(now)
    .fetch_optional(&mut *transaction)
    .await?
    .ok_or(StoreError::StaleFence)?;
    let current = parsed_or_none::<SessionId>(&row, "session_id")?;
    let (session, alias) = match current_log(transaction, tenant, current, candidate.choice).await? {
        Some(current) => current,
        None => (candidate.new_session.id, candidate.new_session.alias),
    };
    let attempt = candidate.attempt + 1;
    sqlx::query(
        "UPDATE runs SET state = 'running', attempt = $3, session_id = $4,
           started_at = coalesce(started_at, $5)
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant)
    .bind(run)
    .bind(i64::from(attempt))
    .bind(session.to_string())
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(Lease {
        key: key.clone(),
        run: candidate.run,
        session,
        alias,
        owner: *owner,
        fence: Fence(column(&row, "fence")?),
        attempt,
        worked_ms: candidate.worked_ms,
        refusal: candidate.refusal,
        over_budget: candidate.over_budget,
    })
}

/// The current log with its short name, if the run wants to go on with it.
async fn current_log(
    transaction: &mut PgConnection,
    tenant: &str,
    current: Option<SessionId>,
    choice: SessionChoice,
) -> TxResult<Option<(SessionId, Option<String>)>> {
    let Some(session) = current.filter(|_| choice != SessionChoice::Fresh) else { return Ok(None) };
    let log = sqlx::query("SELECT alias, updated_at FROM sessions WHERE tenant_id = $1 AND id = $2")
        .bind(tenant)
        .bind(session.to_string())
        .fetch_optional(transaction)
        .await?;
    let Some(log) = log else { return Ok(Some((session, None))) };
    let written: i64 = column(&log, "updated_at")?;
    let stale = matches!(choice, SessionChoice::Since(time) if written < time);
    Ok(if stale { None } else { Some((session, text_or_none(&log, "alias")?)) })
}
