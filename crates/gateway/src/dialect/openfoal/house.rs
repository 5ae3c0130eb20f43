//! The methods of this dialect about the house: the audit trail, counts.

use serde_json::{Value, json};
use tidegate_runtime::iso_timestamp;

use super::rows::{AuditQuery, Scoped};
use crate::api::metrics::lane_statuses;
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Audit rows looked at for those of one kind.
const LOOKED_AT: u32 = 5000;

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
