//! `usage.*`: what model calls used and cost.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_protocol::Usage;
use tidegate_storage::{UsageFilter, UsageGroup};

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

fn line(usage: &Usage) -> Value {
    json!({
        "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write, "totalTokens": usage.total(), "totalCost": usage.cost.usd(),
        "missingCostEntries": 0,
    })
}

pub(crate) async fn cost(caller: Caller, params: UsageCost) -> Result<Value, WireError> {
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
        let mut day = line(&row.usage);
        day["date"] = json!(row.group);
        daily.push(day);
    }
    Ok(json!({ "updatedAt": now, "days": days, "daily": daily, "totals": line(&totals) }))
}

/// What providers say is left of a plan; nobody asks them here.
pub(crate) async fn status(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    Ok(json!({ "updatedAt": caller.gate.shared.now(), "providers": [] }))
}
