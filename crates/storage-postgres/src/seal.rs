//! Sealing the audit trail. One sealer at a time for each tenant; rows that committed late are in the next seal.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::TenantId;
use tidegate_storage::{AuditContent, AuditTrail, Result, Seal, SealedRow, new_salt};

use crate::error::TxResult;
use crate::open::{ENGINE, PostgresStore};
use crate::rows::{collect, column, unsigned};
use crate::transaction::{Open, verb};

macro_rules! content_columns {
    () => {
        "ord, id, actor, action, resource_type, resource_id, metadata_json, created_at"
    };
}

#[async_trait]
impl AuditTrail for PostgresStore {
    async fn seal(&self, tenant: &TenantId, limit: u32, now: i64) -> Result<Option<Seal>> {
        self.write(tenant, verb!("seal"), |Open { transaction, .. }| {
            Box::pin(seal(transaction, tenant, limit, now))
        })
        .await
    }

    async fn seals(&self, tenant: &TenantId, after: i64, limit: u32) -> Result<Vec<Seal>> {
        if self.version() < ENGINE {
            return Ok(Vec::new());
        }
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT number, rows, chain, sealed_at FROM audit_seals
                 WHERE tenant_id = $1 AND number > $2 ORDER BY number LIMIT $3",
            )
            .bind(tenant.as_str())
            .bind(after)
            .bind(i64::from(limit))
        });
        collect(&rows.await?, read_seal)
    }

    async fn sealed_rows(&self, tenant: &TenantId, seal: i64) -> Result<Vec<SealedRow>> {
        if self.version() < ENGINE {
            return Ok(Vec::new());
        }
        let rows = self.rows(tenant, || {
            sqlx::query(concat!(
                "SELECT ",
                content_columns!(),
                ", coalesce(salt, '') AS salt, coalesce(digest, '') AS digest FROM audit_logs
                 WHERE tenant_id = $1 AND seal = $2 ORDER BY ord"
            ))
            .bind(tenant.as_str())
            .bind(seal)
        });
        collect(&rows.await?, |row| {
            Ok(SealedRow {
                content: content(row)?,
                salt: column(row, "salt")?,
                digest: column(row, "digest")?,
            })
        })
    }

    async fn unsealed(&self, tenant: &TenantId) -> Result<u64> {
        // A row that names a seal which does not exist is covered by none.
        let sql = if self.version() < ENGINE {
            "SELECT count(*) AS n FROM audit_logs WHERE tenant_id = $1"
        } else {
            "SELECT count(*) AS n FROM audit_logs WHERE tenant_id = $1 AND (seal IS NULL OR seal < 1 OR seal >
               (SELECT coalesce(max(number), 0) FROM audit_seals WHERE tenant_id = $1))"
        };
        let rows = self.rows(tenant, || sqlx::query(sql).bind(tenant.as_str())).await?;
        rows.first().map_or(Ok(0), |row| unsigned(row, "n"))
    }
}

fn read_seal(row: &PgRow) -> Result<Seal> {
    Ok(Seal {
        number: column(row, "number")?,
        rows: column(row, "rows")?,
        chain: column(row, "chain")?,
        sealed_at: column(row, "sealed_at")?,
    })
}

/// As it is stored: a digest covers bytes, not what they stand for.
fn content(row: &PgRow) -> Result<AuditContent> {
    Ok(AuditContent {
        id: column(row, "id")?,
        actor: column(row, "actor")?,
        action: column(row, "action")?,
        resource_type: column(row, "resource_type")?,
        resource_id: column(row, "resource_id")?,
        metadata_json: column(row, "metadata_json")?,
        created_at: column(row, "created_at")?,
    })
}

async fn seal(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    limit: u32,
    now: i64,
) -> TxResult<Option<Seal>> {
    sqlx::query(
        "SELECT pg_advisory_xact_lock(hashtextextended(format('%s seals %s', current_schema(), $1), 0))",
    )
    .bind(tenant.as_str())
    .execute(&mut *transaction)
    .await?;
    let open = sqlx::query(concat!(
        "SELECT ",
        content_columns!(),
        " FROM audit_logs WHERE tenant_id = $1 AND seal IS NULL ORDER BY ord LIMIT $2"
    ))
    .bind(tenant.as_str())
    .bind(i64::from(limit))
    .fetch_all(&mut *transaction)
    .await?;
    if open.is_empty() {
        return Ok(None);
    }
    let before = sqlx::query(
        "SELECT number, rows, chain, sealed_at FROM audit_seals WHERE tenant_id = $1 ORDER BY number DESC LIMIT 1",
    )
    .bind(tenant.as_str())
    .fetch_optional(&mut *transaction)
    .await?;
    let before = before.as_ref().map(read_seal).transpose()?;
    let (mut ords, mut salts, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    for row in &open {
        let salt = new_salt()?;
        ords.push(column::<i64>(row, "ord")?);
        digests.push(content(row)?.digest(&salt));
        salts.push(salt);
    }
    let seal = Seal::after(before.as_ref(), &digests, now);
    sqlx::query(
        "UPDATE audit_logs a SET seal = $2, salt = sealed.salt, digest = sealed.digest
         FROM unnest($3::bigint[], $4::text[], $5::text[]) AS sealed (ord, salt, digest)
         WHERE a.tenant_id = $1 AND a.ord = sealed.ord",
    )
    .bind(tenant.as_str())
    .bind(seal.number)
    .bind(ords)
    .bind(salts)
    .bind(digests)
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "INSERT INTO audit_seals (tenant_id, number, rows, chain, sealed_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(tenant.as_str())
    .bind(seal.number)
    .bind(seal.rows)
    .bind(&seal.chain)
    .bind(seal.sealed_at)
    .execute(transaction)
    .await?;
    Ok(Some(seal))
}
