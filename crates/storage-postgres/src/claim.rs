//! Claiming a session's next run.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{RunId, SessionId, SessionKey};
use tidegate_storage::{Claim, Fence, Lease, NewSession, Owner, Result, StoreError};

use crate::error::TxResult;
use crate::instance::{check_current, settle_session};
use crate::rows::{column, parsed, parsed_or_none, text_or_none, unsigned};
use crate::text::restore;

/// A run that may be granted.
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    /// Attempts before this one.
    pub(crate) attempt: u32,
    pub(crate) fresh: bool,
    pub(crate) new_session: NewSession,
}

pub(crate) async fn claim(
    transaction: &mut PgConnection,
    key: &SessionKey,
    owner: &Owner,
    ttl_ms: i64,
    now: i64,
) -> TxResult<Claim> {
    check_current(transaction, owner).await?;
    let Some(holder) = lock(transaction, key).await? else { return Ok(Claim::Nothing) };
    if let Some((run, holder)) = holder {
        if !is_void(transaction, &holder, owner, ttl_ms).await? {
            return Ok(Claim::Busy { run });
        }
        settle_session(transaction, key, run, now).await?;
    }
    let next = sqlx::query(
        "SELECT id, attempt, fresh, new_session_id, new_session_alias FROM runs
         WHERE tenant_id = $1 AND session_key = $2 AND state = 'queued' ORDER BY queue LIMIT 1",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .fetch_optional(&mut *transaction)
    .await?;
    match next {
        Some(row) => Ok(Claim::Granted(grant(transaction, key, owner, candidate(&row)?, now).await?)),
        None => Ok(Claim::Nothing),
    }
}

fn candidate(row: &PgRow) -> Result<Candidate> {
    Ok(Candidate {
        run: parsed(row, "id")?,
        attempt: unsigned(row, "attempt")?,
        fresh: column(row, "fresh")?,
        new_session: NewSession {
            id: parsed(row, "new_session_id")?,
            alias: text_or_none(row, "new_session_alias")?,
        },
    })
}

/// Locks the session's row and says who holds it. `None` when there is no such session.
async fn lock(transaction: &mut PgConnection, key: &SessionKey) -> TxResult<Option<Option<(RunId, Owner)>>> {
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
    let holder =
        Owner { instance: parsed(&row, "owner_instance")?, incarnation: column(&row, "owner_incarnation")? };
    Ok(Some(Some((run, holder))))
}

/// Whether the holder can no longer be at work: an earlier incarnation, or silent for too long by the database's clock.
async fn is_void(
    transaction: &mut PgConnection,
    holder: &Owner,
    claimant: &Owner,
    ttl_ms: i64,
) -> TxResult<bool> {
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
    let current = parsed_or_none::<SessionId>(&row, "session_id")?.filter(|_| !candidate.fresh);
    let (session, alias) = match current {
        Some(session) => (session, alias_of(transaction, tenant, session).await?),
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
    let fence = Fence(column(&row, "fence")?);
    Ok(Lease { key: key.clone(), run: candidate.run, session, alias, owner: *owner, fence, attempt })
}

async fn alias_of(
    transaction: &mut PgConnection,
    tenant: &str,
    session: SessionId,
) -> TxResult<Option<String>> {
    let alias: Option<Option<String>> =
        sqlx::query_scalar("SELECT alias FROM sessions WHERE tenant_id = $1 AND id = $2")
            .bind(tenant)
            .bind(session.to_string())
            .fetch_optional(transaction)
            .await?;
    Ok(alias.flatten().map(restore))
}
