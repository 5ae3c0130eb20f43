//! Audit rows join the write they tell about.

use serde_json::Value;
use sqlx::PgConnection;
use tidegate_protocol::{AuditId, TenantId};
use tidegate_runtime::{SystemClock, new_id};
use tidegate_storage::StoreError;

use crate::error::TxResult;
use crate::rows::to_json;
use crate::text::store;

pub(crate) struct Audit<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) resource_type: &'a str,
    pub(crate) resource_id: &'a str,
    pub(crate) metadata: Value,
}

pub(crate) async fn record(transaction: &mut PgConnection, audit: &Audit<'_>, now: i64) -> TxResult<()> {
    let id: AuditId = new_id(&SystemClock).map_err(|error| StoreError::Internal(error.to_string()))?;
    sqlx::query(
        "INSERT INTO audit_logs (tenant_id, id, actor, action, resource_type, resource_id, metadata_json,
           created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(audit.tenant.as_str())
    .bind(id.to_string())
    .bind(store(audit.actor))
    .bind(audit.action)
    .bind(audit.resource_type)
    .bind(audit.resource_id)
    .bind(to_json(&audit.metadata)?)
    .bind(now)
    .execute(transaction)
    .await?;
    Ok(())
}
