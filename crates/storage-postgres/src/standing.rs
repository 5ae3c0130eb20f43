//! How credentials stand, on Postgres.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::TenantId;
use tidegate_storage::{Result, StandingRow, Standings};

use crate::error::TxResult;
use crate::open::{MONEY, PostgresStore};
use crate::rows::{collect, column, text, text_or_none, unsigned};
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Standings for PostgresStore {
    async fn standings(&self, tenant: &TenantId) -> Result<Vec<StandingRow>> {
        if self.version() < MONEY {
            return Ok(Vec::new());
        }
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT provider, profile_id, model, errors, reason, cooldown_until, disabled_until,
                   billing_failures, last_failure_at, last_used_at
                 FROM model_standings WHERE tenant_id = $1 ORDER BY provider, profile_id, model",
            )
            .bind(tenant.as_str())
        });
        collect(&rows.await?, standing)
    }

    async fn note_standing(&self, tenant: &TenantId, standing: StandingRow) -> Result<()> {
        let standing = &standing;
        self.write(tenant, verb!("note_standing"), |Open { transaction, .. }| {
            Box::pin(note(transaction, tenant, standing))
        })
        .await
    }

    async fn clear_standings(&self, tenant: &TenantId, provider: &str, profile: Option<&str>) -> Result<()> {
        self.write(tenant, verb!("clear_standings"), |Open { transaction, .. }| {
            Box::pin(async move {
                sqlx::query(
                    "DELETE FROM model_standings
                     WHERE tenant_id = $1 AND provider = $2 AND ($3::text IS NULL OR profile_id = $3)",
                )
                .bind(tenant.as_str())
                .bind(store(provider))
                .bind(profile.map(store))
                .execute(transaction)
                .await?;
                Ok(())
            })
        })
        .await
    }
}

async fn note(transaction: &mut PgConnection, tenant: &TenantId, standing: &StandingRow) -> TxResult<()> {
    sqlx::query(
        "INSERT INTO model_standings AS s (tenant_id, provider, profile_id, model, errors, reason, cooldown_until,
           disabled_until, billing_failures, last_failure_at, last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (tenant_id, provider, profile_id, model) DO UPDATE SET
           errors = excluded.errors, reason = excluded.reason, cooldown_until = excluded.cooldown_until,
           disabled_until = excluded.disabled_until, billing_failures = excluded.billing_failures,
           last_failure_at = excluded.last_failure_at, last_used_at = excluded.last_used_at
         WHERE greatest(coalesce(s.last_failure_at, 0), coalesce(s.last_used_at, 0)) <= $12",
    )
    .bind(tenant.as_str())
    .bind(store(&standing.provider))
    .bind(store(&standing.profile_id))
    .bind(store(&standing.model))
    .bind(i64::from(standing.errors))
    .bind(standing.reason.as_deref().map(store))
    .bind(standing.cooldown_until)
    .bind(standing.disabled_until)
    .bind(i64::from(standing.billing_failures))
    .bind(standing.last_failure_at)
    .bind(standing.last_used_at)
    .bind(standing.as_of())
    .execute(transaction)
    .await?;
    Ok(())
}

fn standing(row: &PgRow) -> Result<StandingRow> {
    Ok(StandingRow {
        provider: text(row, "provider")?,
        profile_id: text(row, "profile_id")?,
        model: text(row, "model")?,
        errors: unsigned(row, "errors")?,
        reason: text_or_none(row, "reason")?,
        cooldown_until: column(row, "cooldown_until")?,
        disabled_until: column(row, "disabled_until")?,
        billing_failures: unsigned(row, "billing_failures")?,
        last_failure_at: column(row, "last_failure_at")?,
        last_used_at: column(row, "last_used_at")?,
    })
}
