//! The methods of this dialect about the house: budgets, the audit trail, counts.

use serde_json::{Value, json};
use tidegate_policy::BudgetLine;
use tidegate_runtime::iso_timestamp;
use tidegate_storage::BudgetFilter;

use super::rows::{AuditQuery, ScopeKey, Scoped};
use crate::api::metrics::lane_statuses;
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Audit rows looked at for those of one kind.
const LOOKED_AT: u32 = 5000;

pub(crate) async fn budget_get(caller: Caller, params: ScopeKey) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let now = caller.gate.shared.now();
    let scope = engine.settings().scope(None)?;
    let key = params.scope_key.unwrap_or_else(|| format!("workspace:{}:{}", scope.tenant, scope.workspace));
    let lines = engine.settings().budget_lines(&scope, now);
    let line = |kind: &str| lines.iter().find(|line| line.scope == key && line.period.starts_with(kind));
    let (day, month) = (engine.settings().zone().day(now), "month:");
    let filter = BudgetFilter { scopes: vec![key.clone()], periods: Vec::new(), limit: 1000 };
    let rows = engine.library().budgets(engine.tenant(), filter).await?;
    let of = |period: String| rows.iter().find(|row| row.key.period == period);
    let today = of(format!("day:{day}"));
    let this_month = of(format!("{month}{}", day.get(..7).unwrap_or(&day)));
    let tokens = line("day:").and_then(|line: &BudgetLine| line.max_tokens);
    let dollars = line("month:").and_then(|line| line.max_cost).map(tidegate_protocol::Cost::usd);
    let hard = line("day:").or_else(|| line("month:")).is_some_and(|line| line.hard);
    Ok(json!({
        "policy": {
            "scopeKey": key, "tokenDailyLimit": tokens, "costMonthlyUsdLimit": dollars, "hardLimit": hard,
            "version": 1, "updatedAt": iso_timestamp(caller.gate.shared.started_at),
        },
        "usage": {
            "date": day, "month": day.get(..7),
            "tokensUsedDaily": today.map_or(0, |row| row.used.tokens_spent),
            "costUsdMonthly": this_month.map_or(0.0, |row| row.used.cost_spent.usd()),
            "runsRejectedDaily": today.map_or(0, |row| row.rejected),
        },
    }))
}

pub(crate) async fn audit_query(caller: Caller, params: AuditQuery) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let limit = params.limit.unwrap_or(50);
    let read = if params.action.is_some() { LOOKED_AT } else { limit };
    let rows = engine.library().audit(engine.tenant(), read).await?;
    let items: Vec<Value> = rows
        .iter()
        .filter(|row| params.action.as_deref().is_none_or(|action| row.action == action))
        .take(limit as usize)
        .map(|row| {
            json!({
                "id": row.id, "tenantId": engine.tenant(), "action": row.action, "actor": row.actor,
                "resourceType": row.resource_type, "resourceId": row.resource_id, "metadata": row.metadata,
                "createdAt": iso_timestamp(row.created_at),
            })
        })
        .collect();
    Ok(json!({ "items": items }))
}

pub(crate) async fn metrics_summary(caller: Caller, _: Scoped) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let stored = engine.library().status(engine.tenant()).await?;
    let runs: serde_json::Map<String, Value> =
        stored.runs.iter().map(|(state, count)| (state.clone(), json!(count))).collect();
    let total: u64 = stored.runs.iter().map(|(_, count)| count).sum();
    let of = |state: &str| stored.runs.iter().find(|(name, _)| name == state).map_or(0, |(_, count)| *count);
    Ok(json!({
        "metrics": {
            "runsTotal": total, "runsFailed": of("failed"), "runsCompleted": of("completed"), "runs": runs,
            "sessions": stored.sessions, "lanes": lane_statuses(&engine.lanes()),
        },
    }))
}
