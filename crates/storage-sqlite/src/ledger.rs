//! The ledger of model calls on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::{AgentId, RunId, RunState, TenantId, Usage};
use tidegate_storage::{
    AfterMeter, BudgetChanges, Ledger, Meter, MeteredRun, NewCall, Result, Settled, UsageFilter, UsageGroup,
    UsageRow, countable,
};

use crate::budget::apply;
use crate::migrate::has_schema;
use crate::open::SqliteStore;
use crate::rows::{
    collect, column, execute, first, json_or_none, parsed, parsed_or_none, to_json, unsigned, usage as totals,
};
use crate::writer::verb;

#[async_trait]
impl Ledger for SqliteStore {
    async fn meter(&self, tenant: &TenantId, meter: Meter) -> Result<()> {
        let tenant = tenant.clone();
        self.write(verb!("meter"), move |connection| put(connection, &tenant, &meter)).await
    }
}

/// Writes calls down outside FINISH. Their run and its log count them, and its budgets do.
pub(crate) fn put(connection: &Connection, tenant: &TenantId, meter: &Meter) -> Result<()> {
    let used = insert_calls(connection, tenant, meter.run, &meter.calls)?;
    let Some(run) = meter.run else { return Ok(()) };
    count(connection, tenant, run, &used)?;
    let Some(metered) = metered_run(connection, tenant, run)? else { return Ok(()) };
    let mut changes = BudgetChanges::default();
    let of_run = |sql: &str, value: &str| {
        execute(connection, sql, params![tenant.as_str(), run.to_string(), value]).map(drop)
    };
    match changes.meter(&metered, &used) {
        AfterMeter::Unchanged => {}
        AfterMeter::Holds(left) => of_run(
            "UPDATE runs SET reservation_json = ?3 WHERE tenant_id = ?1 AND id = ?2",
            &to_json(&left)?,
        )?,
        AfterMeter::Metered => of_run(
            "UPDATE runs SET settled = ?3 WHERE tenant_id = ?1 AND id = ?2",
            Settled::Metered.as_str(),
        )?,
    }
    apply(connection, tenant, &changes)
}

/// Adds to what the run used, and its log.
fn count(connection: &Connection, tenant: &TenantId, run: RunId, used: &Usage) -> Result<()> {
    for sql in [
        "UPDATE runs SET token_input = token_input + ?3, token_output = token_output + ?4,
           token_cache_read = token_cache_read + ?5, token_cache_write = token_cache_write + ?6, cost = cost + ?7
         WHERE tenant_id = ?1 AND id = ?2",
        "UPDATE sessions SET token_input = token_input + ?3, token_output = token_output + ?4,
           token_cache_read = token_cache_read + ?5, token_cache_write = token_cache_write + ?6, cost = cost + ?7
         WHERE tenant_id = ?1 AND id = (SELECT session_id FROM runs WHERE tenant_id = ?1 AND id = ?2)",
    ] {
        execute(
            connection,
            sql,
            params![
                tenant.as_str(),
                run.to_string(),
                countable(used.input),
                countable(used.output),
                countable(used.cache_read),
                countable(used.cache_write),
                countable(used.cost.0)
            ],
        )?;
    }
    Ok(())
}

/// The calls of a run, in the order they began.
pub(crate) fn calls_of(connection: &Connection, tenant: &TenantId, run: RunId) -> Result<Vec<NewCall>> {
    if !has_schema(connection, 4)? {
        return Ok(Vec::new());
    }
    let index = if has_schema(connection, 6)? { "INDEXED BY model_calls_by_run" } else { "" };
    collect(
        connection,
        &format!(
            "SELECT * FROM model_calls {index} WHERE tenant_id = ?1 AND run_id = ?2 ORDER BY started_at, id"
        ),
        params![tenant.as_str(), run.to_string()],
        |row| {
            Ok(NewCall {
                id: parsed(row, "id")?,
                agent: parsed(row, "agent")?,
                session: parsed_or_none(row, "session_key")?,
                purpose: column(row, "purpose")?,
                provider: column(row, "provider")?,
                model: column(row, "model")?,
                profile_id: column(row, "profile_id")?,
                usage: totals(row)?,
                estimated: column(row, "estimated")?,
                outcome: column(row, "outcome")?,
                started_at: column(row, "started_at")?,
                day: column(row, "day")?,
            })
        },
    )
}

/// The run, if it has a reservation to settle.
fn metered_run(connection: &Connection, tenant: &TenantId, run: RunId) -> Result<Option<MeteredRun>> {
    let found = first(
        connection,
        "SELECT state, reservation_json, settled FROM runs WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), run.to_string()],
        |row| {
            let ended = RunState::parse(&column::<String>(row, "state")?).is_terminal();
            let settled = column(row, "settled")?;
            Ok(json_or_none(row, "reservation_json")?.map(|reserved| MeteredRun { reserved, ended, settled }))
        },
    )?;
    Ok(found.flatten())
}

/// Writes calls down and adds up those that were not there yet.
pub(crate) fn insert_calls(
    connection: &Connection,
    tenant: &TenantId,
    run: Option<RunId>,
    calls: &[NewCall],
) -> Result<Usage> {
    let mut used = Usage::default();
    for call in calls {
        let added = execute(
            connection,
            "INSERT INTO model_calls (tenant_id, started_at, id, run_id, session_key, agent, purpose, provider, model,
               profile_id, token_input, token_output, token_cache_read, token_cache_write, cost, estimated, outcome,
               day)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
             ON CONFLICT (tenant_id, started_at, id) DO NOTHING",
            params![
                tenant.as_str(),
                call.started_at,
                call.id.to_string(),
                run.map(|run| run.to_string()),
                call.session.as_ref().map(ToString::to_string),
                call.agent.as_str(),
                call.purpose,
                call.provider,
                call.model,
                call.profile_id,
                countable(call.usage.input),
                countable(call.usage.output),
                countable(call.usage.cache_read),
                countable(call.usage.cache_write),
                countable(call.usage.cost.0),
                call.estimated,
                call.outcome,
                call.day
            ],
        )?;
        if added == 1 {
            used += call.usage;
        }
    }
    Ok(used)
}

pub(crate) fn usage(
    connection: &Connection,
    tenant: &TenantId,
    filter: &UsageFilter,
) -> Result<Vec<UsageRow>> {
    if !has_schema(connection, 4)? {
        return Ok(Vec::new());
    }
    let (column, order) = (filter.group.column(), filter.group.order());
    let sql = format!(
        "SELECT * FROM (
           SELECT {column} AS group_name, count(*) AS calls, sum(estimated) AS estimated_calls,
             sum(token_input) AS token_input, sum(token_output) AS token_output,
             sum(token_cache_read) AS token_cache_read, sum(token_cache_write) AS token_cache_write,
             sum(cost) AS cost
           FROM model_calls
           WHERE tenant_id = ?1 AND started_at >= ?2 AND started_at < ?3
             AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR session_key = ?5)
           GROUP BY 1)
         ORDER BY {order} LIMIT ?6"
    );
    let mut rows = collect(
        connection,
        &sql,
        params![
            tenant.as_str(),
            filter.since_ms,
            filter.until_ms,
            filter.agent.as_ref().map(AgentId::as_str),
            filter.session.as_ref().map(ToString::to_string),
            filter.limit
        ],
        usage_row,
    )?;
    if filter.group == UsageGroup::Day {
        rows.reverse();
    }
    Ok(rows)
}

fn usage_row(row: &Row<'_>) -> Result<UsageRow> {
    Ok(UsageRow {
        group: column(row, "group_name")?,
        calls: unsigned(row, "calls")?,
        usage: totals(row)?,
        estimated_calls: unsigned(row, "estimated_calls")?,
    })
}
