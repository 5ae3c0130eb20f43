//! The methods of this dialect about the house: the audit trail, counts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_protocol::api::LaneStatus;
use tidegate_protocol::{AuditId, TenantId};
use tidegate_runtime::iso_timestamp;

use super::rows::{AuditQuery, Scoped};
use crate::api::metrics::lane_statuses;
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Audit rows looked at for those of one kind.
const LOOKED_AT: u32 = 5000;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditRows {
    items: Vec<AuditRow>,
}

/// One thing that was done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditRow {
    id: AuditId,
    tenant_id: TenantId,
    action: String,
    actor: String,
    resource_type: String,
    resource_id: String,
    /// As whoever did it wrote it down.
    metadata: Value,
    created_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricsSummary {
    metrics: Metrics,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metrics {
    runs_total: u64,
    runs_failed: u64,
    runs_completed: u64,
    /// By state.
    runs: BTreeMap<String, u64>,
    sessions: u64,
    lanes: Vec<LaneStatus>,
}

pub(crate) async fn audit_query(caller: Caller, params: AuditQuery) -> Result<AuditRows, WireError> {
    let engine = caller.gate.engine();
    let limit = params.limit.unwrap_or(50);
    let read = if params.action.is_some() { LOOKED_AT } else { limit };
    let rows = engine.library().audit(engine.tenant(), read).await?;
    let items = rows
        .into_iter()
        .filter(|row| params.action.as_deref().is_none_or(|action| row.action == action))
        .take(limit as usize)
        .map(|row| AuditRow {
            id: row.id,
            tenant_id: engine.tenant().clone(),
            action: row.action,
            actor: row.actor,
            resource_type: row.resource_type,
            resource_id: row.resource_id,
            metadata: row.metadata,
            created_at: iso_timestamp(row.created_at),
        })
        .collect();
    Ok(AuditRows { items })
}

pub(crate) async fn metrics_summary(caller: Caller, _: Scoped) -> Result<MetricsSummary, WireError> {
    let engine = caller.gate.engine();
    let stored = engine.library().status(engine.tenant()).await?;
    let runs: BTreeMap<String, u64> = stored.runs.into_iter().collect();
    let of = |state: &str| runs.get(state).copied().unwrap_or_default();
    let metrics = Metrics {
        runs_total: runs.values().sum(),
        runs_failed: of("failed"),
        runs_completed: of("completed"),
        sessions: stored.sessions,
        lanes: lane_statuses(&engine.lanes()),
        runs,
    };
    Ok(MetricsSummary { metrics })
}
