//! Audit rows join the write they tell about.

use rusqlite::{Connection, params};
use serde_json::Value;
use tidegate_protocol::{AuditId, TenantId};
use tidegate_runtime::{SystemClock, new_id};
use tidegate_storage::{Result, StoreError};

use crate::rows::{execute, to_json};

pub(crate) struct Audit<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) resource_type: &'a str,
    pub(crate) resource_id: &'a str,
    pub(crate) metadata: Value,
}

pub(crate) fn record(connection: &Connection, audit: &Audit<'_>, now: i64) -> Result<()> {
    let id: AuditId = new_id(&SystemClock).map_err(|error| StoreError::Internal(error.to_string()))?;
    execute(
        connection,
        "INSERT INTO audit_logs (tenant_id, id, actor, action, resource_type, resource_id, metadata_json, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            audit.tenant.as_str(),
            id.to_string(),
            audit.actor,
            audit.action,
            audit.resource_type,
            audit.resource_id,
            to_json(&audit.metadata)?,
            now
        ],
    )?;
    Ok(())
}
