//! SENDING and SENT.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tidegate_protocol::{RunId, SendOutcome, TenantId};
use tidegate_storage::{Outbox, OutboxState, Owner, Result, Sending, StoreError};

use crate::instance::check_current;
use crate::open::SqliteStore;
use crate::rows::{column, execute, first, parsed};
use crate::writer::verb;

#[async_trait]
impl Outbox for SqliteStore {
    async fn claim_send(&self, tenant: &TenantId, owner: &Owner, now: i64) -> Result<Option<Sending>> {
        let (tenant, owner) = (tenant.clone(), *owner);
        self.write(verb!("claim_send"), move |connection| claim_send(connection, &tenant, &owner, now)).await
    }

    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState> {
        let sending = sending.clone();
        self.write(verb!("settle_send"), move |connection| settle_send(connection, &sending, &outcome, now))
            .await
    }
}

fn claim_send(
    connection: &Connection,
    tenant: &TenantId,
    owner: &Owner,
    now: i64,
) -> Result<Option<Sending>> {
    check_current(connection, owner)?;
    first(
        connection,
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, owner_instance = ?2, owner_incarnation = ?3,
           updated_at = ?4
         WHERE ord = (
           SELECT min(ord) AS head FROM outbox WHERE tenant_id = ?1 AND state IN ('pending', 'sending')
           GROUP BY lane HAVING state = 'pending' AND retry_at <= ?4 ORDER BY head LIMIT 1)
         RETURNING id, run_id, lane, body, attempt",
        params![tenant.as_str(), owner.instance.to_string(), owner.incarnation, now],
        |row| {
            Ok(Sending {
                tenant: tenant.clone(),
                id: parsed(row, "id")?,
                run: parsed(row, "run_id")?,
                lane: column(row, "lane")?,
                body: column(row, "body")?,
                owner: *owner,
                attempt: column(row, "attempt")?,
            })
        },
    )
}

fn settle_send(
    connection: &Connection,
    sending: &Sending,
    outcome: &SendOutcome,
    now: i64,
) -> Result<OutboxState> {
    let state = OutboxState::after(outcome);
    let (retry_at, remote_id, reason) = match outcome {
        SendOutcome::Sent { id } => (0, Some(id), None),
        SendOutcome::NotSent { retry_at, reason } => (*retry_at, None, Some(reason)),
        SendOutcome::Rejected { reason } | SendOutcome::Unknown { reason } => (0, None, Some(reason)),
    };
    let touched = execute(
        connection,
        "UPDATE outbox SET state = ?6, retry_at = ?7, remote_id = ?8, reason = ?9, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = ?10
         WHERE tenant_id = ?1 AND id = ?2 AND state = 'sending' AND owner_instance = ?3 AND owner_incarnation = ?4
           AND attempt = ?5",
        params![
            sending.tenant.as_str(),
            sending.id.to_string(),
            sending.owner.instance.to_string(),
            sending.owner.incarnation,
            sending.attempt,
            state.as_str(),
            retry_at,
            remote_id,
            reason,
            now
        ],
    )?;
    if touched == 0 {
        return Err(StoreError::StaleFence);
    }
    if matches!(state, OutboxState::Dead | OutboxState::Unknown) {
        drop_rest(connection, sending.tenant.as_str(), sending.run, now)?;
    }
    Ok(state)
}

/// A reply with a hole in it is worse than its beginning: the parts that have not gone out stay.
pub(crate) fn drop_rest(connection: &Connection, tenant: &str, run: RunId, now: i64) -> Result<()> {
    execute(
        connection,
        "UPDATE outbox SET state = 'dropped', reason = 'an earlier part did not go out', updated_at = ?3
         WHERE tenant_id = ?1 AND run_id = ?2 AND state = 'pending'",
        params![tenant, run.to_string(), now],
    )?;
    Ok(())
}
