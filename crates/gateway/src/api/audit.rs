//! The audit trail, newest first.

use axum::extract::State;
use axum::http::Uri;
use tidegate_protocol::api::{AuditLine, AuditList};
use tidegate_storage::AuditRow;

use crate::answer::{Answered, Refusal, json};
use crate::gate::Gate;
use crate::query;

/// Rows that are listed, and how many may be.
const LISTED: u32 = 100;
const MOST_LISTED: u32 = 1000;

pub(crate) async fn list(State(gate): State<Gate>, uri: Uri) -> Answered {
    let limit = query::limit(&query::pairs(uri.query()), LISTED, MOST_LISTED)?;
    json(&listed(&gate, Some(limit)).await?)
}

pub(crate) async fn listed(gate: &Gate, limit: Option<u32>) -> Result<AuditList, Refusal> {
    let (engine, limit) = (gate.engine(), limit.unwrap_or(LISTED));
    let rows = engine.library().audit(engine.tenant(), limit).await?;
    Ok(AuditList { audit: rows.into_iter().map(line).collect() })
}

fn line(row: AuditRow) -> AuditLine {
    let AuditRow { id, actor, action, resource_type, resource_id, metadata, created_at } = row;
    AuditLine { id, actor, action, resource_type, resource_id, metadata, created_at }
}
