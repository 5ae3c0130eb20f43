//! Keys of callers and what they were answered, on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tidegate_protocol::TenantId;
use tidegate_storage::{Idempotency, Keys, Result, StoreError};

use crate::open::SqliteStore;
use crate::rows::{column, execute, first};
use crate::writer::verb;

#[async_trait]
impl Keys for SqliteStore {
    async fn answered(&self, tenant: &TenantId, key: &Idempotency, now: i64) -> Result<Option<String>> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.read(move |connection| known(connection, &tenant, &key, now)).await
    }

    async fn keep_answer(
        &self,
        tenant: &TenantId,
        key: Idempotency,
        answer: String,
        now: i64,
    ) -> Result<String> {
        let tenant = tenant.clone();
        self.write(verb!("keep_answer"), move |connection| {
            if let Some(earlier) = known(connection, &tenant, &key, now)? {
                return Ok(earlier);
            }
            execute(
                connection,
                "INSERT OR REPLACE INTO idempotency
                   (tenant_id, key_hash, fingerprint, run_id, created_at, expires_at, answer)
                 VALUES (?1, ?2, ?3, '', ?4, ?5, ?6)",
                params![tenant.as_str(), key.key, key.fingerprint, now, key.expires_at, answer],
            )?;
            Ok(answer.clone())
        })
        .await
    }
}

fn known(connection: &Connection, tenant: &TenantId, key: &Idempotency, now: i64) -> Result<Option<String>> {
    let known = first(
        connection,
        "SELECT fingerprint, answer FROM idempotency
         WHERE tenant_id = ?1 AND key_hash = ?2 AND expires_at > ?3",
        params![tenant.as_str(), key.key, now],
        |row| Ok((column::<String>(row, "fingerprint")?, column::<Option<String>>(row, "answer")?)),
    )?;
    match known {
        None => Ok(None),
        Some((fingerprint, Some(answer))) if fingerprint == key.fingerprint => Ok(Some(answer)),
        Some(_) => Err(StoreError::IdempotencyConflict),
    }
}
