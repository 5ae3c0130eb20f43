//! Budgets on Postgres: reserving with ACCEPT, and counting what each way to end leaves.
//!
//! Everybody who writes shares these rows. They are locked last in a transaction and always in the same order, so that
//! waiting for each other never closes a circle.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{Cost, TenantId};
use tidegate_storage::{
    Accept, Booking, BudgetChange, BudgetChanges, BudgetFilter, BudgetKey, BudgetRefusal, BudgetRow,
    BudgetUse, Lease, Reservation, Reserved, Result, Settled, first_that_fits, forgotten_periods,
};

use crate::append::hold;
use crate::audit::{Audit, record};
use crate::error::TxResult;
use crate::open::{MONEY, PostgresStore};
use crate::rows::{collect, column, json_or_none, text, to_json, unsigned};
use crate::text::store;

/// Reserves what the request asks for, or finds that a hard line has no room for it. The run's row is there already.
pub(crate) async fn book(transaction: &mut PgConnection, accept: &Accept) -> TxResult<Booking> {
    let Some(reservation) = &accept.reservation else { return Ok(Booking::default()) };
    let tenant = &accept.key.scope.tenant;
    let before = lock(transaction, tenant, [reservation]).await?;
    let booking = Booking::decide(reservation, &before);
    let mut changes = BudgetChanges::default();
    if let Some(reserved) = &booking.reserved {
        changes.reserve(reserved);
    }
    if let Some(refusal) = &booking.refusal {
        changes.reject(refusal);
        let audit = Audit {
            tenant,
            actor: accept.principal.actor(),
            action: "budget.rejected",
            resource_type: "run",
            resource_id: &accept.run.id.to_string(),
            metadata: json!({ "sessionKey": accept.key.to_string(), "lines": refusal.lines }),
        };
        record(transaction, &audit, accept.now).await?;
    }
    write(transaction, tenant, &changes).await?;
    let over = Some(&booking.over_budget).filter(|over| !over.is_empty());
    sqlx::query(
        "UPDATE runs SET reservation_json = $3, refusal_json = $4, over_budget_json = $5
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(tenant.as_str())
    .bind(accept.run.id.to_string())
    .bind(booking.reserved.as_ref().map(to_json).transpose()?)
    .bind(booking.refusal.as_ref().map(to_json).transpose()?)
    .bind(over.map(to_json).transpose()?)
    .execute(transaction)
    .await?;
    Ok(booking)
}

/// Holds the first that fits in place of what the run held.
pub(crate) async fn hold_instead(
    transaction: &mut PgConnection,
    lease: &Lease,
    wanted: &[Reservation],
    now: i64,
) -> TxResult<std::result::Result<usize, BudgetRefusal>> {
    hold(transaction, lease, now).await?;
    let (tenant, run) = (lease.tenant(), lease.run.to_string());
    let row =
        sqlx::query("SELECT actor, reservation_json FROM runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE")
            .bind(tenant.as_str())
            .bind(&run)
            .fetch_one(&mut *transaction)
            .await?;
    let (actor, held) = (text(&row, "actor")?, json_or_none::<Reserved>(&row, "reservation_json")?);
    let lines = wanted.iter().map(Reserved::of).chain(held.clone()).flat_map(|reserved| reserved.lines);
    let before = lock_lines(transaction, tenant, &lines.collect()).await?;
    let mut changes = BudgetChanges::default();
    let (fits, refusal) = first_that_fits(held.as_ref(), wanted, before);
    let Some((at, reserved)) = fits else {
        let refusal = refusal.unwrap_or(BudgetRefusal { lines: Vec::new() });
        changes.reject(&refusal);
        write(transaction, tenant, &changes).await?;
        let audit = Audit {
            tenant,
            actor: &actor,
            action: "budget.rejected",
            resource_type: "run",
            resource_id: &run,
            metadata: json!({ "sessionKey": lease.key.to_string(), "lines": refusal.lines }),
        };
        record(transaction, &audit, now).await?;
        return Ok(Err(refusal));
    };
    if let Some(held) = &held {
        changes.release(held);
    }
    changes.reserve(&reserved);
    write(transaction, tenant, &changes).await?;
    sqlx::query("UPDATE runs SET reservation_json = $3 WHERE tenant_id = $1 AND id = $2")
        .bind(tenant.as_str())
        .bind(&run)
        .bind(to_json(&reserved)?)
        .execute(transaction)
        .await?;
    Ok(Ok(at))
}

/// Locks the rows of all these lines, in their one order, and answers what they have seen.
pub(crate) async fn lock<'a>(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    reservations: impl IntoIterator<Item = &'a Reservation>,
) -> TxResult<BTreeMap<BudgetKey, BudgetUse>> {
    let keys = reservations.into_iter().flat_map(|reservation| Reserved::of(reservation).lines).collect();
    lock_lines(transaction, tenant, &keys).await
}

/// The same for lines of any origin.
pub(crate) async fn lock_lines(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    keys: &BTreeSet<BudgetKey>,
) -> TxResult<BTreeMap<BudgetKey, BudgetUse>> {
    lock_rows(transaction, tenant, keys.iter()).await
}

/// Makes the rows that are missing and locks them all.
async fn lock_rows(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    keys: impl Iterator<Item = &BudgetKey> + Clone,
) -> TxResult<BTreeMap<BudgetKey, BudgetUse>> {
    if keys.clone().next().is_none() {
        return Ok(BTreeMap::new());
    }
    let rows = sqlx::query(
        "INSERT INTO budget_usage AS b (tenant_id, scope, period)
         SELECT $1, line.scope, line.period
         FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS line (scope, period, place)
         ORDER BY line.place
         ON CONFLICT (tenant_id, scope, period) DO UPDATE SET rejected = b.rejected
         RETURNING b.scope, b.period, b.tokens_spent, b.tokens_reserved, b.cost_spent, b.cost_reserved",
    )
    .bind(tenant.as_str())
    .bind(keys.clone().map(|key| store(&key.scope).into_owned()).collect::<Vec<_>>())
    .bind(keys.map(|key| store(&key.period).into_owned()).collect::<Vec<_>>())
    .fetch_all(transaction)
    .await?;
    let seen: Result<_> = rows.iter().map(|row| Ok((key_of(row)?, used(row)?))).collect();
    Ok(seen?)
}

/// Writes the changes. A row that was forgotten meanwhile begins anew, and nothing falls below zero.
pub(crate) async fn apply(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    changes: &BudgetChanges,
) -> TxResult<()> {
    let keys: Vec<&BudgetKey> = changes.iter().map(|(key, _)| key).collect();
    lock_rows(transaction, tenant, keys.iter().copied()).await?;
    write(transaction, tenant, changes).await
}

/// Changes rows that are locked.
async fn write(transaction: &mut PgConnection, tenant: &TenantId, changes: &BudgetChanges) -> TxResult<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let amounts =
        |of: fn(&BudgetChange) -> i64| changes.iter().map(|(_, change)| of(change)).collect::<Vec<_>>();
    sqlx::query(
        "UPDATE budget_usage b SET
           tokens_spent = greatest(b.tokens_spent + c.tokens_spent, 0),
           tokens_reserved = greatest(b.tokens_reserved + c.tokens_reserved, 0),
           cost_spent = greatest(b.cost_spent + c.cost_spent, 0),
           cost_reserved = greatest(b.cost_reserved + c.cost_reserved, 0),
           rejected = b.rejected + c.rejected
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
           AS c (scope, period, tokens_spent, tokens_reserved, cost_spent, cost_reserved, rejected)
         WHERE b.tenant_id = $1 AND b.scope = c.scope AND b.period = c.period",
    )
    .bind(tenant.as_str())
    .bind(changes.iter().map(|(key, _)| store(&key.scope).into_owned()).collect::<Vec<_>>())
    .bind(changes.iter().map(|(key, _)| store(&key.period).into_owned()).collect::<Vec<_>>())
    .bind(amounts(|change| change.tokens_spent))
    .bind(amounts(|change| change.tokens_reserved))
    .bind(amounts(|change| change.cost_spent))
    .bind(amounts(|change| change.cost_reserved))
    .bind(amounts(|change| change.rejected))
    .execute(transaction)
    .await?;
    Ok(())
}

/// What a run that ended from outside held, and how that is settled. Reads `reservation_json` and `started_at`: a run
/// that was queued again had begun.
pub(crate) fn ended_from_outside(row: &PgRow) -> Result<Option<(Reserved, Settled)>> {
    let begun = column::<Option<i64>>(row, "started_at")?.is_some();
    let reserved: Option<Reserved> = json_or_none(row, "reservation_json")?;
    Ok(reserved.map(|reserved| (reserved, Settled::from_outside(begun))))
}

/// An older release ended runs and left what they had reserved.
pub(crate) async fn free_leftovers(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    limit: u32,
) -> TxResult<u64> {
    let left = sqlx::query(
        "SELECT id, reservation_json, started_at FROM runs
         WHERE tenant_id = $1 AND reservation_json IS NOT NULL AND settled IS NULL
           AND state IN ('completed', 'failed', 'aborted', 'interrupted', 'joined')
         ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
    )
    .bind(tenant.as_str())
    .bind(i64::from(limit))
    .fetch_all(&mut *transaction)
    .await?;
    let mut changes = BudgetChanges::default();
    for row in &left {
        let Some((reserved, settled)) = ended_from_outside(row)? else { continue };
        changes.end(&reserved, settled);
        sqlx::query("UPDATE runs SET settled = $3 WHERE tenant_id = $1 AND id = $2")
            .bind(tenant.as_str())
            .bind(column::<&str>(row, "id")?)
            .bind(settled.as_str())
            .execute(&mut *transaction)
            .await?;
    }
    apply(transaction, tenant, &changes).await?;
    Ok(left.len() as u64)
}

/// Removes periods that nobody asks about any more.
pub(crate) async fn forget(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    now: i64,
    limit: u32,
) -> TxResult<u64> {
    let (day, month) = forgotten_periods(now);
    let removed = sqlx::query(
        "DELETE FROM budget_usage b USING (
           SELECT scope, period FROM budget_usage WHERE tenant_id = $1
             AND ((period >= 'day:' AND period < $2) OR (period >= 'month:' AND period < $3))
           LIMIT $4) old
         WHERE b.tenant_id = $1 AND b.scope = old.scope AND b.period = old.period",
    )
    .bind(tenant.as_str())
    .bind(day)
    .bind(month)
    .bind(i64::from(limit))
    .execute(transaction)
    .await?;
    Ok(removed.rows_affected())
}

pub(crate) async fn rows(
    postgres: &PostgresStore,
    tenant: &TenantId,
    filter: &BudgetFilter,
) -> Result<Vec<BudgetRow>> {
    if postgres.version() < MONEY {
        return Ok(Vec::new());
    }
    let names = |list: &[String]| list.iter().map(|name| store(name).into_owned()).collect::<Vec<_>>();
    let rows = postgres.rows(tenant, || {
        sqlx::query(
            "SELECT scope, period, tokens_spent, tokens_reserved, cost_spent, cost_reserved, rejected
             FROM budget_usage
             WHERE tenant_id = $1 AND (cardinality($2::text[]) = 0 OR scope = ANY($2))
               AND (cardinality($3::text[]) = 0 OR period = ANY($3))
             ORDER BY scope, period LIMIT $4",
        )
        .bind(tenant.as_str())
        .bind(names(&filter.scopes))
        .bind(names(&filter.periods))
        .bind(i64::from(filter.limit))
    });
    collect(&rows.await?, |row| {
        Ok(BudgetRow { key: key_of(row)?, used: used(row)?, rejected: unsigned(row, "rejected")? })
    })
}

fn key_of(row: &PgRow) -> Result<BudgetKey> {
    Ok(BudgetKey { scope: text(row, "scope")?, period: text(row, "period")? })
}

fn used(row: &PgRow) -> Result<BudgetUse> {
    Ok(BudgetUse {
        tokens_spent: unsigned(row, "tokens_spent")?,
        tokens_reserved: unsigned(row, "tokens_reserved")?,
        cost_spent: Cost(unsigned(row, "cost_spent")?),
        cost_reserved: Cost(unsigned(row, "cost_reserved")?),
    })
}
