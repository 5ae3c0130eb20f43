//! The ledger of model calls on Postgres.

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tidegate_protocol::{AgentId, RunId, RunState, TenantId, Usage};
use tidegate_storage::{
    AfterMeter, BudgetChanges, Ledger, Meter, MeteredRun, NewCall, Result, Settled, UsageFilter, UsageGroup,
    UsageRow, countable,
};

use crate::budget::apply;
use crate::error::TxResult;
use crate::open::{MONEY, PostgresStore};
use crate::rows::{
    collect, column, json_or_none, parsed, parsed_or_none, text, text_or_none, to_json, unsigned,
    usage as totals,
};
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Ledger for PostgresStore {
    async fn meter(&self, tenant: &TenantId, meter: Meter) -> Result<()> {
        let meter = &meter;
        self.write(tenant, verb!("meter"), |Open { transaction, .. }| {
            Box::pin(put(transaction, tenant, meter))
        })
        .await
    }
}

/// Writes calls down outside FINISH. Their run and its log count them, and its budgets do.
pub(crate) async fn put(transaction: &mut PgConnection, tenant: &TenantId, meter: &Meter) -> TxResult<()> {
    // The run first, as FINISH does; its row's lock makes sure that each of the two sees what the other one counted.
    let metered = match meter.run {
        Some(run) => metered_run(transaction, tenant, run).await?.map(|metered| (run, metered)),
        None => None,
    };
    let used = insert_calls(transaction, tenant, meter.run, &meter.calls).await?;
    let Some((run, metered)) = metered else { return Ok(()) };
    count(transaction, tenant, run, &used).await?;
    let Some(metered) = metered else { return Ok(()) };
    let mut changes = BudgetChanges::default();
    let (sql, value) = match changes.meter(&metered, &used) {
        AfterMeter::Unchanged => return apply(transaction, tenant, &changes).await,
        AfterMeter::Holds(left) => {
            ("UPDATE runs SET reservation_json = $3 WHERE tenant_id = $1 AND id = $2", to_json(&left)?)
        }
        AfterMeter::Metered => (
            "UPDATE runs SET settled = $3 WHERE tenant_id = $1 AND id = $2",
            Settled::Metered.as_str().to_owned(),
        ),
    };
    sqlx::query(sql)
        .bind(tenant.as_str())
        .bind(run.to_string())
        .bind(value)
        .execute(&mut *transaction)
        .await?;
    apply(transaction, tenant, &changes).await
}

/// Adds to what the run used, and its log.
async fn count(transaction: &mut PgConnection, tenant: &TenantId, run: RunId, used: &Usage) -> TxResult<()> {
    for sql in [
        "UPDATE runs SET token_input = token_input + $3, token_output = token_output + $4,
           token_cache_read = token_cache_read + $5, token_cache_write = token_cache_write + $6, cost = cost + $7
         WHERE tenant_id = $1 AND id = $2",
        "UPDATE sessions SET token_input = token_input + $3, token_output = token_output + $4,
           token_cache_read = token_cache_read + $5, token_cache_write = token_cache_write + $6, cost = cost + $7
         WHERE tenant_id = $1 AND id = (SELECT session_id FROM runs WHERE tenant_id = $1 AND id = $2)",
    ] {
        sqlx::query(sql)
            .bind(tenant.as_str())
            .bind(run.to_string())
            .bind(countable(used.input))
            .bind(countable(used.output))
            .bind(countable(used.cache_read))
            .bind(countable(used.cache_write))
            .bind(countable(used.cost.0))
            .execute(&mut *transaction)
            .await?;
    }
    Ok(())
}

/// The calls of a run, in the order they began.
pub(crate) async fn calls_of(
    postgres: &PostgresStore,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<NewCall>> {
    if postgres.version() < MONEY {
        return Ok(Vec::new());
    }
    let rows = postgres.rows(tenant, || {
        sqlx::query(
            "SELECT id, agent, session_key, purpose, provider, model, profile_id, token_input, token_output,
               token_cache_read, token_cache_write, cost, estimated, outcome, started_at, day
             FROM model_calls WHERE tenant_id = $1 AND run_id = $2 ORDER BY started_at, id",
        )
        .bind(tenant.as_str())
        .bind(run.to_string())
    });
    collect(&rows.await?, |row| {
        Ok(NewCall {
            id: parsed(row, "id")?,
            agent: parsed(row, "agent")?,
            session: parsed_or_none(row, "session_key")?,
            purpose: text(row, "purpose")?,
            provider: text(row, "provider")?,
            model: text(row, "model")?,
            profile_id: text_or_none(row, "profile_id")?,
            usage: totals(row)?,
            estimated: column(row, "estimated")?,
            outcome: text(row, "outcome")?,
            started_at: column(row, "started_at")?,
            day: text(row, "day")?,
        })
    })
}

/// The run, locked, and what it has to settle if it reserved anything.
async fn metered_run(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
) -> TxResult<Option<Option<MeteredRun>>> {
    let row = sqlx::query(
        "SELECT state, reservation_json, settled FROM runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE",
    )
    .bind(tenant.as_str())
    .bind(run.to_string())
    .fetch_optional(transaction)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let Some(reserved) = json_or_none(&row, "reservation_json")? else { return Ok(Some(None)) };
    let ended = RunState::parse(column(&row, "state")?).is_terminal();
    Ok(Some(Some(MeteredRun { reserved, ended, settled: column(&row, "settled")? })))
}

/// Writes calls down and adds up those that were not there yet.
pub(crate) async fn insert_calls(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: Option<RunId>,
    calls: &[NewCall],
) -> TxResult<Usage> {
    let mut used = Usage::default();
    for call in calls {
        let added = sqlx::query(
            "INSERT INTO model_calls (tenant_id, started_at, id, run_id, session_key, agent, purpose, provider, model,
               profile_id, token_input, token_output, token_cache_read, token_cache_write, cost, estimated, outcome,
               day)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
             ON CONFLICT (tenant_id, started_at, id) DO NOTHING",
        )
        .bind(tenant.as_str())
        .bind(call.started_at)
        .bind(call.id.to_string())
        .bind(run.map(|run| run.to_string()))
        .bind(call.session.as_ref().map(ToString::to_string))
        .bind(call.agent.as_str())
        .bind(store(&call.purpose))
        .bind(store(&call.provider))
        .bind(store(&call.model))
        .bind(call.profile_id.as_deref().map(store))
        .bind(countable(call.usage.input))
        .bind(countable(call.usage.output))
        .bind(countable(call.usage.cache_read))
        .bind(countable(call.usage.cache_write))
        .bind(countable(call.usage.cost.0))
        .bind(call.estimated)
        .bind(store(&call.outcome))
        .bind(store(&call.day))
        .execute(&mut *transaction)
        .await?;
        if added.rows_affected() == 1 {
            used += call.usage;
        }
    }
    Ok(used)
}

pub(crate) async fn usage(
    postgres: &PostgresStore,
    tenant: &TenantId,
    filter: &UsageFilter,
) -> Result<Vec<UsageRow>> {
    if postgres.version() < MONEY {
        return Ok(Vec::new());
    }
    let (group, order) = (filter.group.column(), filter.group.order());
    // Sums of BIGINT are NUMERIC.
    let sql = format!(
        "SELECT * FROM (
           SELECT {group} AS group_name, count(*) AS calls, count(*) FILTER (WHERE estimated) AS estimated_calls,
             sum(token_input)::bigint AS token_input, sum(token_output)::bigint AS token_output,
             sum(token_cache_read)::bigint AS token_cache_read, sum(token_cache_write)::bigint AS token_cache_write,
             sum(cost)::bigint AS cost
           FROM model_calls
           WHERE tenant_id = $1 AND started_at >= $2 AND started_at < $3
             AND ($4::text IS NULL OR agent = $4) AND ($5::text IS NULL OR session_key = $5)
           GROUP BY 1) AS sums
         ORDER BY {order} LIMIT $6"
    );
    let rows = postgres.rows(tenant, || {
        sqlx::query(AssertSqlSafe(sql.clone()))
            .bind(tenant.as_str())
            .bind(filter.since_ms)
            .bind(filter.until_ms)
            .bind(filter.agent.as_ref().map(AgentId::as_str))
            .bind(filter.session.as_ref().map(ToString::to_string))
            .bind(i64::from(filter.limit))
    });
    let mut rows = collect(&rows.await?, usage_row)?;
    if filter.group == UsageGroup::Day {
        rows.reverse();
    }
    Ok(rows)
}

fn usage_row(row: &PgRow) -> Result<UsageRow> {
    Ok(UsageRow {
        group: text(row, "group_name")?,
        calls: unsigned(row, "calls")?,
        usage: totals(row)?,
        estimated_calls: unsigned(row, "estimated_calls")?,
    })
}
