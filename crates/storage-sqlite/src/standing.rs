//! How credentials stand, on SQLite.

use async_trait::async_trait;
use rusqlite::{Row, params};
use tidegate_protocol::TenantId;
use tidegate_storage::{Result, StandingRow, Standings};

use crate::migrate::has_schema;
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, unsigned};
use crate::writer::verb;

#[async_trait]
impl Standings for SqliteStore {
    async fn standings(&self, tenant: &TenantId) -> Result<Vec<StandingRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            if !has_schema(connection, 4)? {
                return Ok(Vec::new());
            }
            collect(
                connection,
                "SELECT * FROM model_standings WHERE tenant_id = ?1 ORDER BY provider, profile_id, model",
                params![tenant.as_str()],
                standing,
            )
        })
        .await
    }

    async fn note_standing(&self, tenant: &TenantId, standing: StandingRow) -> Result<()> {
        let tenant = tenant.clone();
        self.write(verb!("note_standing"), move |connection| {
            execute(
                connection,
                "INSERT INTO model_standings (tenant_id, provider, profile_id, model, errors, reason, cooldown_until,
                   disabled_until, billing_failures, last_failure_at, last_used_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (tenant_id, provider, profile_id, model) DO UPDATE SET
                   errors = ?5, reason = ?6, cooldown_until = ?7, disabled_until = ?8, billing_failures = ?9,
                   last_failure_at = ?10, last_used_at = ?11
                 WHERE max(coalesce(last_failure_at, 0), coalesce(last_used_at, 0)) <= ?12",
                params![
                    tenant.as_str(),
                    standing.provider,
                    standing.profile_id,
                    standing.model,
                    standing.errors,
                    standing.reason,
                    standing.cooldown_until,
                    standing.disabled_until,
                    standing.billing_failures,
                    standing.last_failure_at,
                    standing.last_used_at,
                    standing.as_of()
                ],
            )
            .map(drop)
        })
        .await
    }

    async fn clear_standings(&self, tenant: &TenantId, provider: &str, profile: Option<&str>) -> Result<()> {
        let (tenant, provider, profile) = (tenant.clone(), provider.to_owned(), profile.map(str::to_owned));
        self.write(verb!("clear_standings"), move |connection| {
            execute(
                connection,
                "DELETE FROM model_standings
                 WHERE tenant_id = ?1 AND provider = ?2 AND (?3 IS NULL OR profile_id = ?3)",
                params![tenant.as_str(), provider, profile],
            )
            .map(drop)
        })
        .await
    }
}

fn standing(row: &Row<'_>) -> Result<StandingRow> {
    Ok(StandingRow {
        provider: column(row, "provider")?,
        profile_id: column(row, "profile_id")?,
        model: column(row, "model")?,
        errors: unsigned(row, "errors")?,
        reason: column(row, "reason")?,
        cooldown_until: column(row, "cooldown_until")?,
        disabled_until: column(row, "disabled_until")?,
        billing_failures: unsigned(row, "billing_failures")?,
        last_failure_at: column(row, "last_failure_at")?,
        last_used_at: column(row, "last_used_at")?,
    })
}
