//! Budgets on SQLite: reserving with ACCEPT, and counting what each way to end leaves.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use serde_json::json;
use tidegate_protocol::{Cost, RunId, TenantId};
use tidegate_storage::{
    Accept, Booking, BudgetChanges, BudgetFilter, BudgetKey, BudgetRefusal, BudgetRow, BudgetUse, Lease,
    Reservation, Reserved, Result, Settled, first_that_fits, forgotten_periods,
};

use crate::append::hold;
use crate::audit::{Audit, record};
use crate::migrate::has_schema;
use crate::rows::{collect, column, execute, first, json_or_none, parsed, to_json, unsigned};

/// Reserves what the request asks for, or finds that a hard line has no room for it.
pub(crate) fn book(connection: &Connection, accept: &Accept) -> Result<Booking> {
    let Some(reservation) = &accept.reservation else { return Ok(Booking::default()) };
    let tenant = &accept.key.scope.tenant;
    let before = seen(connection, tenant, &Reserved::of(reservation))?;
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
        record(connection, &audit, accept.now)?;
    }
    apply(connection, tenant, &changes)?;
    Ok(booking)
}

/// Holds the first that fits in place of what the run held.
pub(crate) fn hold_instead(
    connection: &Connection,
    lease: &Lease,
    wanted: &[Reservation],
    now: i64,
) -> Result<std::result::Result<usize, BudgetRefusal>> {
    hold(connection, lease, now)?;
    let (tenant, run) = (lease.tenant(), lease.run.to_string());
    let row = first(
        connection,
        "SELECT actor, reservation_json FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), run],
        |row| Ok((column::<String>(row, "actor")?, json_or_none::<Reserved>(row, "reservation_json")?)),
    )?;
    let (actor, held) = row.unwrap_or_default();
    let mut before = BTreeMap::new();
    for reserved in wanted.iter().map(Reserved::of).chain(held.clone()) {
        before.extend(seen(connection, tenant, &reserved)?);
    }
    let mut changes = BudgetChanges::default();
    let (fits, refusal) = first_that_fits(held.as_ref(), wanted, before);
    let Some((at, reserved)) = fits else {
        let refusal = refusal.unwrap_or(BudgetRefusal { lines: Vec::new() });
        changes.reject(&refusal);
        let audit = Audit {
            tenant,
            actor: &actor,
            action: "budget.rejected",
            resource_type: "run",
            resource_id: &run,
            metadata: json!({ "sessionKey": lease.key.to_string(), "lines": refusal.lines }),
        };
        record(connection, &audit, now)?;
        apply(connection, tenant, &changes)?;
        return Ok(Err(refusal));
    };
    if let Some(held) = &held {
        changes.release(held);
    }
    changes.reserve(&reserved);
    execute(
        connection,
        "UPDATE runs SET reservation_json = ?3 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), run, to_json(&reserved)?],
    )?;
    apply(connection, tenant, &changes)?;
    Ok(Ok(at))
}

/// What the lines' periods have seen. There is one writer: nobody changes it before this commit.
fn seen(
    connection: &Connection,
    tenant: &TenantId,
    reserved: &Reserved,
) -> Result<BTreeMap<BudgetKey, BudgetUse>> {
    let mut seen = BTreeMap::new();
    for line in &reserved.lines {
        let found = first(
            connection,
            "SELECT tokens_spent, tokens_reserved, cost_spent, cost_reserved FROM budget_usage
             WHERE tenant_id = ?1 AND scope = ?2 AND period = ?3",
            params![tenant.as_str(), line.scope, line.period],
            used,
        )?;
        seen.extend(found.map(|used| (line.clone(), used)));
    }
    Ok(seen)
}

/// Writes the changes. A row that was forgotten meanwhile begins anew, and nothing falls below zero.
pub(crate) fn apply(connection: &Connection, tenant: &TenantId, changes: &BudgetChanges) -> Result<()> {
    for (key, change) in changes.iter() {
        execute(
            connection,
            "INSERT INTO budget_usage (tenant_id, scope, period, tokens_spent, tokens_reserved, cost_spent,
               cost_reserved, rejected)
             VALUES (?1, ?2, ?3, max(?4, 0), max(?5, 0), max(?6, 0), max(?7, 0), ?8)
             ON CONFLICT (tenant_id, scope, period) DO UPDATE SET
               tokens_spent = max(tokens_spent + ?4, 0), tokens_reserved = max(tokens_reserved + ?5, 0),
               cost_spent = max(cost_spent + ?6, 0), cost_reserved = max(cost_reserved + ?7, 0),
               rejected = rejected + ?8",
            params![
                tenant.as_str(),
                key.scope,
                key.period,
                change.tokens_spent,
                change.tokens_reserved,
                change.cost_spent,
                change.cost_reserved,
                change.rejected
            ],
        )?;
    }
    Ok(())
}

/// What a run that ended from outside held, and how that is settled. Reads `reservation_json` and `started_at`: a run
/// that was queued again had begun.
pub(crate) fn ended_from_outside(row: &Row<'_>) -> Result<Option<(Reserved, Settled)>> {
    let begun = column::<Option<i64>>(row, "started_at")?.is_some();
    let reserved: Option<Reserved> = json_or_none(row, "reservation_json")?;
    Ok(reserved.map(|reserved| (reserved, Settled::from_outside(begun))))
}

/// An older release ended runs and left what they had reserved.
pub(crate) fn free_leftovers(connection: &Connection, tenant: &TenantId, limit: u32) -> Result<u64> {
    let left = collect(
        connection,
        "SELECT id, reservation_json, started_at FROM runs INDEXED BY runs_reserved
         WHERE tenant_id = ?1 AND reservation_json IS NOT NULL AND settled IS NULL
           AND state IN ('completed', 'failed', 'aborted', 'interrupted', 'joined')
         ORDER BY id LIMIT ?2",
        params![tenant.as_str(), limit],
        |row| Ok((parsed::<RunId>(row, "id")?, ended_from_outside(row)?)),
    )?;
    let mut changes = BudgetChanges::default();
    for (run, reserved) in &left {
        let Some((reserved, settled)) = reserved else { continue };
        changes.end(reserved, *settled);
        execute(
            connection,
            "UPDATE runs SET settled = ?3 WHERE tenant_id = ?1 AND id = ?2",
            params![tenant.as_str(), run.to_string(), settled.as_str()],
        )?;
    }
    apply(connection, tenant, &changes)?;
    Ok(left.len() as u64)
}

/// Removes periods that nobody asks about any more.
pub(crate) fn forget(connection: &Connection, tenant: &TenantId, now: i64, limit: u32) -> Result<u64> {
    let (day, month) = forgotten_periods(now);
    let removed = execute(
        connection,
        "DELETE FROM budget_usage WHERE tenant_id = ?1 AND (scope, period) IN (
           SELECT scope, period FROM budget_usage WHERE tenant_id = ?1
             AND ((period >= 'day:' AND period < ?2) OR (period >= 'month:' AND period < ?3))
           LIMIT ?4)",
        params![tenant.as_str(), day, month, limit],
    )?;
    Ok(removed as u64)
}

pub(crate) fn rows(
    connection: &Connection,
    tenant: &TenantId,
    filter: &BudgetFilter,
) -> Result<Vec<BudgetRow>> {
    if !has_schema(connection, 4)? {
        return Ok(Vec::new());
    }
    collect(
        connection,
        "SELECT * FROM budget_usage
         WHERE tenant_id = ?1 AND (?2 = '[]' OR scope IN (SELECT value FROM json_each(?2)))
           AND (?3 = '[]' OR period IN (SELECT value FROM json_each(?3)))
         ORDER BY scope, period LIMIT ?4",
        params![tenant.as_str(), to_json(&filter.scopes)?, to_json(&filter.periods)?, filter.limit],
        |row| {
            Ok(BudgetRow {
                key: BudgetKey { scope: column(row, "scope")?, period: column(row, "period")? },
                used: used(row)?,
                rejected: unsigned(row, "rejected")?,
            })
        },
    )
}

fn used(row: &Row<'_>) -> Result<BudgetUse> {
    Ok(BudgetUse {
        tokens_spent: unsigned(row, "tokens_spent")?,
        tokens_reserved: unsigned(row, "tokens_reserved")?,
        cost_spent: Cost(unsigned(row, "cost_spent")?),
        cost_reserved: Cost(unsigned(row, "cost_reserved")?),
    })
}
