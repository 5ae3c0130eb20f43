//! How far the transcript files follow.

use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use tidegate_protocol::{SessionId, TenantId};
use tidegate_storage::{Mirror, MirrorPosition, MirrorTask, Result};

use crate::library::parent_of;
use crate::open::{AGENT, PostgresStore};
use crate::rows::{collect, column, parsed, text_or_none};
use crate::transaction::{Open, verb};

#[async_trait]
impl Mirror for PostgresStore {
    async fn mirror_backlog(&self, tenant: &TenantId, limit: u32) -> Result<Vec<MirrorTask>> {
        let fork = if self.version() < AGENT {
            "NULL::text AS parent_id, 0::bigint AS fork_seq"
        } else {
            "parent_id, fork_seq"
        };
        let sql = format!(
            "SELECT id, alias, agent_id, created_at, mirrored_seq, mirrored_bytes, mirrored_checksum, {fork}
             FROM sessions WHERE tenant_id = $1 AND head_seq > mirrored_seq ORDER BY id LIMIT $2"
        );
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone())).bind(tenant.as_str()).bind(i64::from(limit))
        });
        collect(&rows.await?, |row| {
            Ok(MirrorTask {
                session: parsed(row, "id")?,
                alias: text_or_none(row, "alias")?,
                agent: parsed(row, "agent_id")?,
                created_at: column(row, "created_at")?,
                parent: parent_of(row)?,
                position: MirrorPosition {
                    seq: column(row, "mirrored_seq")?,
                    bytes: column(row, "mirrored_bytes")?,
                    checksum: column(row, "mirrored_checksum")?,
                },
            })
        })
    }

    async fn note_mirrored(
        &self,
        tenant: &TenantId,
        session: SessionId,
        position: MirrorPosition,
    ) -> Result<()> {
        self.write(tenant, verb!("note_mirrored"), |Open { transaction, .. }| {
            Box::pin(async move {
                // Two notes may cross; the file only grows.
                sqlx::query(
                    "UPDATE sessions SET mirrored_seq = $3, mirrored_bytes = $4, mirrored_checksum = $5
                 WHERE tenant_id = $1 AND id = $2 AND mirrored_seq <= $3",
                )
                .bind(tenant.as_str())
                .bind(session.to_string())
                .bind(position.seq)
                .bind(position.bytes)
                .bind(position.checksum)
                .execute(transaction)
                .await?;
                Ok(())
            })
        })
        .await
    }
}
