//! Parts that did not go out: telling their owner, and what a person decides about them.

use rusqlite::{Connection, params};
use serde_json::json;
use tidegate_protocol::{OutboxId, RunId, TenantId};
use tidegate_storage::{Decided, OutboxRow, OutboxState, Principal, Result};

use crate::audit::{Audit, record};
use crate::library::outbox_rows;
use crate::migrate::has_schema;
use crate::outbox::drop_rest;
use crate::rows::{column, execute, first, parsed};

/// A part as far as a decision about it depends on it.
struct Part {
    run: RunId,
    number: u32,
    state: OutboxState,
}

fn find(connection: &Connection, tenant: &TenantId, id: OutboxId) -> Result<Option<Part>> {
    first(
        connection,
        "SELECT run_id, part, state FROM outbox WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), id.to_string()],
        |row| {
            Ok(Part {
                run: parsed(row, "run_id")?,
                number: column(row, "part")?,
                state: OutboxState::parse(&column::<String>(row, "state")?),
            })
        },
    )
}

pub(crate) fn retry(
    connection: &Connection,
    principal: &Principal,
    id: OutboxId,
    now: i64,
) -> Result<Decided> {
    let tenant = principal.tenant();
    let Some(part) = find(connection, tenant, id)? else { return Ok(Decided::NotFound) };
    if !part.state.may_be_retried() {
        return Ok(Decided::Refused(part.state));
    }
    let parts = execute(
        connection,
        "UPDATE outbox SET state = 'pending', attempt = 0, retry_at = 0, reason = NULL, told_at = NULL,
           requeued_at = ?4, updated_at = ?4
         WHERE tenant_id = ?1 AND run_id = ?2 AND (part = ?3 OR (part > ?3 AND state = 'dropped'))",
        params![tenant.as_str(), part.run.to_string(), part.number, now],
    )?;
    let parts = u32::try_from(parts).unwrap_or(u32::MAX);
    note(connection, principal, id, "outbox.retry", &part, parts, now)
}

pub(crate) fn give_up(
    connection: &Connection,
    principal: &Principal,
    id: OutboxId,
    now: i64,
) -> Result<Decided> {
    let tenant = principal.tenant();
    let Some(part) = find(connection, tenant, id)? else { return Ok(Decided::NotFound) };
    if !part.state.may_be_dropped() {
        return Ok(Decided::Refused(part.state));
    }
    execute(
        connection,
        "UPDATE outbox SET state = 'dropped', reason = ?3, updated_at = ?4 WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), id.to_string(), format!("given up by {principal}"), now],
    )?;
    let rest = drop_rest(connection, tenant, part.run, part.number, now)?;
    note(connection, principal, id, "outbox.drop", &part, rest + 1, now)
}

fn note(
    connection: &Connection,
    principal: &Principal,
    id: OutboxId,
    action: &str,
    part: &Part,
    parts: u32,
    now: i64,
) -> Result<Decided> {
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action,
        resource_type: "outbox",
        resource_id: &id.to_string(),
        metadata: json!({
            "runId": part.run.to_string(),
            "part": part.number,
            "was": part.state.as_str(),
            "parts": parts,
        }),
    };
    record(connection, &audit, now)?;
    Ok(Decided::Done { parts })
}

pub(crate) fn undelivered(connection: &Connection, tenant: &TenantId, limit: u32) -> Result<Vec<OutboxRow>> {
    if !has_schema(connection, 3)? {
        return Ok(Vec::new());
    }
    outbox_rows(
        connection,
        "o.tenant_id = ?1 AND o.state IN ('dead', 'unknown') AND o.told_at IS NULL ORDER BY o.ord LIMIT ?2",
        params![tenant.as_str(), limit],
    )
}

pub(crate) fn note_told(
    connection: &Connection,
    tenant: &TenantId,
    ids: &[OutboxId],
    now: i64,
) -> Result<()> {
    for id in ids {
        execute(
            connection,
            "UPDATE outbox SET told_at = ?3
             WHERE tenant_id = ?1 AND id = ?2 AND state IN ('dead', 'unknown') AND told_at IS NULL",
            params![tenant.as_str(), id.to_string(), now],
        )?;
    }
    Ok(())
}
