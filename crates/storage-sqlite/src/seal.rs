//! Sealing the audit trail.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::TenantId;
use tidegate_storage::{AuditContent, AuditTrail, Result, Seal, SealedRow, new_salt};

use crate::migrate::has_schema;
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, first, unsigned};
use crate::writer::verb;

#[async_trait]
impl AuditTrail for SqliteStore {
    async fn seal(&self, tenant: &TenantId, limit: u32, now: i64) -> Result<Option<Seal>> {
        let tenant = tenant.clone();
        self.write(verb!("seal"), move |connection| seal(connection, &tenant, limit, now)).await
    }

    async fn seals(&self, tenant: &TenantId, after: i64, limit: u32) -> Result<Vec<Seal>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            if !has_schema(connection, 3)? {
                return Ok(Vec::new());
            }
            collect(
                connection,
                "SELECT * FROM audit_seals WHERE tenant_id = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
                params![tenant.as_str(), after, limit],
                read_seal,
            )
        })
        .await
    }

    async fn sealed_rows(&self, tenant: &TenantId, seal: i64) -> Result<Vec<SealedRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            if !has_schema(connection, 3)? {
                return Ok(Vec::new());
            }
            collect(
                connection,
                "SELECT * FROM audit_logs WHERE tenant_id = ?1 AND seal = ?2 ORDER BY ord",
                params![tenant.as_str(), seal],
                |row| {
                    Ok(SealedRow {
                        content: content(row)?,
                        salt: column::<Option<String>>(row, "salt")?.unwrap_or_default(),
                        digest: column::<Option<String>>(row, "digest")?.unwrap_or_default(),
                    })
                },
            )
        })
        .await
    }

    async fn unsealed(&self, tenant: &TenantId) -> Result<u64> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            // A row that names a seal which does not exist is covered by none.
            let sql = if has_schema(connection, 3)? {
                "SELECT (SELECT count(*) FROM audit_logs WHERE tenant_id = ?1 AND seal IS NULL)
                   + (SELECT count(*) FROM audit_logs WHERE tenant_id = ?1 AND seal < 1)
                   + (SELECT count(*) FROM audit_logs WHERE tenant_id = ?1 AND seal >
                       coalesce((SELECT max(number) FROM audit_seals WHERE tenant_id = ?1), 0)) AS n"
            } else {
                "SELECT count(*) AS n FROM audit_logs WHERE tenant_id = ?1"
            };
            let count = first(connection, sql, params![tenant.as_str()], |row| unsigned(row, "n"))?;
            Ok(count.unwrap_or(0))
        })
        .await
    }
}

fn read_seal(row: &Row<'_>) -> Result<Seal> {
    Ok(Seal {
        number: column(row, "number")?,
        rows: column(row, "rows")?,
        chain: column(row, "chain")?,
        sealed_at: column(row, "sealed_at")?,
    })
}

fn content(row: &Row<'_>) -> Result<AuditContent> {
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

fn seal(connection: &Connection, tenant: &TenantId, limit: u32, now: i64) -> Result<Option<Seal>> {
    let open = collect(
        connection,
        "SELECT * FROM audit_logs WHERE tenant_id = ?1 AND seal IS NULL ORDER BY ord LIMIT ?2",
        params![tenant.as_str(), limit],
        |row| Ok((column::<i64>(row, "ord")?, content(row)?)),
    )?;
    if open.is_empty() {
        return Ok(None);
    }
    let before = first(
        connection,
        "SELECT * FROM audit_seals WHERE tenant_id = ?1 ORDER BY number DESC LIMIT 1",
        params![tenant.as_str()],
        read_seal,
    )?;
    let salts = open.iter().map(|_| new_salt()).collect::<Result<Vec<_>>>()?;
    let digests: Vec<_> = open.iter().zip(&salts).map(|((_, content), salt)| content.digest(salt)).collect();
    let seal = Seal::after(before.as_ref(), &digests, now);
    for (((ord, _), salt), digest) in open.iter().zip(&salts).zip(&digests) {
        execute(
            connection,
            "UPDATE audit_logs SET seal = ?2, salt = ?3, digest = ?4 WHERE ord = ?1",
            params![ord, seal.number, salt, digest],
        )?;
    }
    execute(
        connection,
        "INSERT INTO audit_seals (tenant_id, number, rows, chain, sealed_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![tenant.as_str(), seal.number, seal.rows, seal.chain, seal.sealed_at],
    )?;
    Ok(Some(seal))
}
