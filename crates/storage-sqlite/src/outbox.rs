//! Lanes, SENDING and SENT.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::{OutboxId, RunId, SendOutcome, TenantId};
use tidegate_storage::{
    Decided, Lane, NextSend, Outbox, OutboxRow, OutboxState, Owner, Principal, Result, Sending, StoreError,
};

use crate::decide;
use crate::instance::{check_current, is_void, owner_of};
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, first, parsed};
use crate::writer::verb;

#[async_trait]
impl Outbox for SqliteStore {
    async fn lanes(&self, tenant: &TenantId, limit: u32) -> Result<Vec<Lane>> {
        let tenant = tenant.clone();
        self.read(move |connection| lanes(connection, &tenant, limit)).await
    }

    async fn claim_send(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        lane: &str,
        ttl_ms: i64,
        now: i64,
    ) -> Result<NextSend> {
        let (tenant, owner, lane) = (tenant.clone(), *owner, lane.to_owned());
        self.write(verb!("claim_send"), move |connection| {
            claim_send(connection, &tenant, &owner, &lane, ttl_ms, now)
        })
        .await
    }

    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState> {
        let sending = sending.clone();
        self.write(verb!("settle_send"), move |connection| settle_send(connection, &sending, &outcome, now))
            .await
    }

    async fn retry_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided> {
        let principal = principal.clone();
        self.write(verb!("retry_send"), move |connection| decide::retry(connection, &principal, id, now))
            .await
    }

    async fn drop_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided> {
        let principal = principal.clone();
        self.write(verb!("drop_send"), move |connection| decide::give_up(connection, &principal, id, now))
            .await
    }

    async fn undelivered(&self, tenant: &TenantId, limit: u32) -> Result<Vec<OutboxRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| decide::undelivered(connection, &tenant, limit)).await
    }

    async fn note_told(&self, tenant: &TenantId, ids: &[OutboxId], now: i64) -> Result<()> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        self.write(verb!("note_told"), move |connection| decide::note_told(connection, &tenant, &ids, now))
            .await
    }
}

/// Goes from lane to lane through the index, however many parts wait in each. A part of an older release that names
/// no channel cannot be sent.
fn lanes(connection: &Connection, tenant: &TenantId, limit: u32) -> Result<Vec<Lane>> {
    collect(
        connection,
        "WITH RECURSIVE lanes (name) AS (
           SELECT min(lane) FROM outbox WHERE tenant_id = ?1 AND state IN ('pending', 'sending')
           UNION ALL
           SELECT (SELECT min(lane) FROM outbox
             WHERE tenant_id = ?1 AND state IN ('pending', 'sending') AND lane > lanes.name)
           FROM lanes WHERE lanes.name IS NOT NULL)
         SELECT o.lane, o.channel, o.account_id, o.retry_at FROM lanes JOIN outbox o ON o.ord = (
           SELECT min(ord) FROM outbox
           WHERE tenant_id = ?1 AND state IN ('pending', 'sending') AND lane = lanes.name)
         WHERE o.channel <> '' ORDER BY o.retry_at, o.ord LIMIT ?2",
        params![tenant.as_str(), limit],
        |row| {
            Ok(Lane {
                name: column(row, "lane")?,
                channel: parsed(row, "channel")?,
                account_id: column(row, "account_id")?,
                due_at: column(row, "retry_at")?,
            })
        },
    )
}

fn claim_send(
    connection: &Connection,
    tenant: &TenantId,
    owner: &Owner,
    lane: &str,
    ttl_ms: i64,
    now: i64,
) -> Result<NextSend> {
    check_current(connection, owner)?;
    let of_lane = params![tenant.as_str(), lane];
    // Not always the head: a part that a person wants sent again comes before the one under way.
    let under_way = first(
        connection,
        "SELECT ord, owner_instance, owner_incarnation FROM outbox
         WHERE tenant_id = ?1 AND lane = ?2 AND state = 'sending' LIMIT 1",
        of_lane,
        |row| Ok((column::<i64>(row, "ord")?, owner_of(row)?)),
    )?;
    if let Some((ord, holder)) = under_way {
        if !is_void(connection, holder.as_ref(), owner, ttl_ms, now)? {
            return Ok(NextSend::Busy);
        }
        return start(connection, tenant, owner, ord, Doubt::MayHaveGoneOut, now);
    }
    let head = first(
        connection,
        "SELECT ord, retry_at, channel FROM outbox
         WHERE tenant_id = ?1 AND lane = ?2 AND state IN ('pending', 'sending') ORDER BY ord LIMIT 1",
        of_lane,
        |row| {
            Ok((
                column::<i64>(row, "ord")?,
                column::<i64>(row, "retry_at")?,
                column::<String>(row, "channel")?,
            ))
        },
    )?;
    match head {
        Some((ord, retry_at, channel)) if !channel.is_empty() => {
            if retry_at > now {
                return Ok(NextSend::Later(retry_at));
            }
            start(connection, tenant, owner, ord, Doubt::None, now)
        }
        _ => Ok(NextSend::Empty),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    MayHaveGoneOut,
}

fn start(
    connection: &Connection,
    tenant: &TenantId,
    owner: &Owner,
    ord: i64,
    doubt: Doubt,
    now: i64,
) -> Result<NextSend> {
    let read = |row: &Row<'_>| {
        Ok(Sending {
            tenant: tenant.clone(),
            id: parsed(row, "id")?,
            run: parsed(row, "run_id")?,
            channel: parsed(row, "channel")?,
            account_id: column(row, "account_id")?,
            lane: column(row, "lane")?,
            body: column(row, "body")?,
            owner: *owner,
            attempt: column(row, "attempt")?,
            doubtful: doubt == Doubt::MayHaveGoneOut,
        })
    };
    let sending = first(
        connection,
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, owner_instance = ?2, owner_incarnation = ?3,
           updated_at = ?4
         WHERE ord = ?1 RETURNING id, run_id, channel, account_id, lane, body, attempt",
        params![ord, owner.instance.to_string(), owner.incarnation, now],
        read,
    )?;
    sending.map(NextSend::Granted).ok_or_else(|| StoreError::Internal("a lane's head vanished".to_owned()))
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
    let part = first(
        connection,
        "UPDATE outbox SET state = ?6, retry_at = ?7, remote_id = ?8, reason = ?9, owner_instance = NULL,
           owner_incarnation = NULL, updated_at = ?10
         WHERE tenant_id = ?1 AND id = ?2 AND state = 'sending' AND owner_instance = ?3 AND owner_incarnation = ?4
           AND attempt = ?5
         RETURNING part",
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
        |row| column::<u32>(row, "part"),
    )?;
    let Some(part) = part else { return Err(StoreError::StaleFence) };
    if matches!(state, OutboxState::Dead | OutboxState::Unknown) {
        drop_rest(connection, &sending.tenant, sending.run, part, now)?;
    }
    Ok(state)
}

/// A reply with a hole in it is worse than its beginning: what would come after the part stays here.
pub(crate) fn drop_rest(
    connection: &Connection,
    tenant: &TenantId,
    run: RunId,
    part: u32,
    now: i64,
) -> Result<u32> {
    let dropped = execute(
        connection,
        "UPDATE outbox SET state = 'dropped', reason = 'an earlier part did not go out', updated_at = ?4
         WHERE tenant_id = ?1 AND run_id = ?2 AND part > ?3 AND state = 'pending'",
        params![tenant.as_str(), run.to_string(), part, now],
    )?;
    Ok(u32::try_from(dropped).unwrap_or(u32::MAX))
}
