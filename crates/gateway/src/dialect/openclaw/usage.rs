//! `usage.*`: what model calls used and cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_protocol::Usage;
use tidegate_storage::{UsageFilter, UsageGroup};

use super::answers::EmptyList;
use crate::methods::{Caller, Nothing};
use crate::ws::frame::WireError;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Days that are told when nobody says.
const DAYS: u32 = 30;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageCost {
    #[schemars(range(min = 1, max = 366))]
    days: Option<u32>,
    agent_id: Option<String>,
}

/// Tokens and dollars.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageLine {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    total_cost: f64,
    missing_cost_entries: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageDay {
    date: String,
    #[serde(flatten)]
    line: UsageLine,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CostSummary {
    updated_at: i64,
    days: u32,
    daily: Vec<UsageDay>,
    totals: UsageLine,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanUsage {
    updated_at: i64,
    providers: EmptyList,
}

fn line(usage: &Usage) -> UsageLine {
    UsageLine {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        total_tokens: usage.total(),
        total_cost: usage.cost.usd(),
        missing_cost_entries: 0,
    }
}

pub(crate) async fn cost(caller: Caller, params: UsageCost) -> Result<CostSummary, WireError> {
    let engine = caller.gate.engine();
    let (now, days) = (caller.gate.shared.now(), params.days.unwrap_or(DAYS));
    let agent = match params.agent_id.as_deref() {
        Some(agent) => Some(engine.settings().scope(Some(agent))?.agent),
        None => None,
    };
    let filter = UsageFilter {
        since_ms: now - i64::from(days) * DAY_MS,
        until_ms: now + DAY_MS,
        agent,
        session: None,
        group: UsageGroup::Day,
        limit: days + 1,
    };
    let rows = engine.library().usage(engine.tenant(), filter).await?;
    let mut totals = Usage::default();
    let mut daily = Vec::new();
    for row in &rows {
        totals += row.usage;
        daily.push(UsageDay { date: row.group.clone(), line: line(&row.usage) });
    }
    Ok(CostSummary { updated_at: now, days, daily, totals: line(&totals) })
}

/// What providers say is left of a plan; nobody asks them here.
pub(crate) async fn status(caller: Caller, _: Nothing) -> Result<PlanUsage, WireError> {
    Ok(PlanUsage { updated_at: caller.gate.shared.now(), providers: EmptyList })
}
