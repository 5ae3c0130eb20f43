//! Messages that join the run under way.

use rusqlite::{Connection, Row, params};
use serde_json::json;
use tidegate_protocol::{JoinMode, Message, RunId};
use tidegate_storage::{
    Absorb, Absorbed, BudgetChanges, JoinHost, Joiner, Lease, MOST_ABSORBED, NewEntry, Reserved, Result,
    Settled,
};

use crate::append::{append, hold};
use crate::audit::{Audit, record};
use crate::budget::apply;
use crate::claim::choice_of;
use crate::finish::put_parts;
use crate::instance::owner_of;
use crate::rows::{column, execute, first, json as stored, json_or_none, parsed};
use crate::settle::reply_of;

/// The run at the head of the session's queue.
struct Head {
    run: RunId,
    joiner: Joiner,
    actor: String,
    input: Message,
    reserved: Option<Reserved>,
}

pub(crate) fn absorb(connection: &Connection, lease: &Lease, wish: &Absorb) -> Result<Vec<Absorbed>> {
    let now = wish.now;
    hold(connection, lease, now)?;
    let host = host(connection, lease)?;
    let mut changes = BudgetChanges::default();
    let mut absorbed = Vec::new();
    while absorbed.len() < MOST_ABSORBED
        && let Some(head) = head(connection, lease)?
    {
        if !head.joiner.joins(wish.mode, &host) {
            break;
        }
        join(connection, lease, &head, now)?;
        if let Some(reserved) = &head.reserved {
            changes.end(reserved, Settled::Returned);
        }
        absorbed.push(Absorbed { run: head.run, input: head.input });
    }
    let entries: Vec<NewEntry> = absorbed.iter().map(Absorbed::entry).collect();
    append(connection, lease, &entries, now)?;
    if !absorbed.is_empty() {
        put_parts(connection, lease, &wish.parts, now)?;
    }
    apply(connection, lease.tenant(), &changes)?;
    Ok(absorbed)
}

pub(crate) fn is_joined(connection: &Connection, lease: &Lease, mode: JoinMode) -> Result<bool> {
    let Some(head) = head(connection, lease)? else { return Ok(false) };
    Ok(head.joiner.joins(mode, &host(connection, lease)?))
}

/// The run that holds the lease.
fn host(connection: &Connection, lease: &Lease) -> Result<JoinHost> {
    let host = first(
        connection,
        "SELECT r.reply_json, r.spec_json, s.updated_at FROM runs r
         LEFT JOIN sessions s ON s.tenant_id = ?1 AND s.id = ?3 WHERE r.tenant_id = ?1 AND r.id = ?2",
        params![lease.tenant().as_str(), lease.run.to_string(), lease.session.to_string()],
        |row| {
            let (reply, spec) = (reply_of(row)?, json_or_none(row, "spec_json").unwrap_or_default());
            Ok(JoinHost { owner: lease.owner, reply, spec, written_at: column(row, "updated_at")? })
        },
    )?;
    Ok(host.unwrap_or(JoinHost { owner: lease.owner, reply: None, spec: None, written_at: None }))
}

fn head(connection: &Connection, lease: &Lease) -> Result<Option<Head>> {
    first(
        connection,
        "SELECT id, actor, input_json, reply_json, spec_json, join_mode, fresh, fresh_before, started_at, refusal_json,
           reservation_json, owner_instance, owner_incarnation
         FROM runs WHERE tenant_id = ?1 AND session_key = ?2 AND state = 'queued' ORDER BY queue LIMIT 1",
        params![lease.tenant().as_str(), lease.key.to_string()],
        |row| {
            Ok(Head {
                run: parsed(row, "id")?,
                joiner: joiner(row)?,
                actor: column(row, "actor")?,
                input: stored(row, "input_json")?,
                reserved: json_or_none(row, "reservation_json")?,
            })
        },
    )
}

fn joiner(row: &Row<'_>) -> Result<Joiner> {
    Ok(Joiner {
        join: column::<Option<String>>(row, "join_mode")?.as_deref().and_then(JoinMode::parse),
        reply: reply_of(row)?,
        spec: json_or_none(row, "spec_json").unwrap_or_default(),
        owner: owner_of(row)?,
        choice: choice_of(row)?,
        begun: column::<Option<i64>>(row, "started_at")?.is_some(),
        refused: column::<Option<String>>(row, "refusal_json")?.is_some(),
    })
}

/// Ends the run as one that another took in. It never began, so what it reserved is given back.
fn join(connection: &Connection, lease: &Lease, head: &Head, now: i64) -> Result<()> {
    execute(
        connection,
        "UPDATE runs SET state = 'joined', joined_run = ?3, finished_at = ?4,
           settled = CASE WHEN reservation_json IS NOT NULL THEN ?5 END
         WHERE tenant_id = ?1 AND id = ?2",
        params![
            lease.tenant().as_str(),
            head.run.to_string(),
            lease.run.to_string(),
            now,
            Settled::Returned.as_str()
        ],
    )?;
    let audit = Audit {
        tenant: lease.tenant(),
        actor: &head.actor,
        action: "agent.run.joined",
        resource_type: "run",
        resource_id: &head.run.to_string(),
        metadata: json!({ "sessionKey": lease.key.to_string(), "joinedRun": lease.run.to_string() }),
    };
    record(connection, &audit, now)
}
