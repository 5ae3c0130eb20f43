//! How far the transcript files follow.

use async_trait::async_trait;
use rusqlite::params;
use tidegate_protocol::{SessionId, TenantId};
use tidegate_storage::{Mirror, MirrorPosition, MirrorTask, Result};

use crate::library::parent_of;
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, parsed};
use crate::writer::verb;

#[async_trait]
impl Mirror for SqliteStore {
    async fn mirror_backlog(&self, tenant: &TenantId, limit: u32) -> Result<Vec<MirrorTask>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM sessions
                 WHERE tenant_id = ?1 AND head_seq > mirrored_seq ORDER BY id LIMIT ?2",
                params![tenant.as_str(), limit],
                |row| {
                    Ok(MirrorTask {
                        session: parsed(row, "id")?,
                        alias: column(row, "alias")?,
                        agent: parsed(row, "agent_id")?,
                        created_at: column(row, "created_at")?,
                        parent: parent_of(row)?,
                        position: MirrorPosition {
                            seq: column(row, "mirrored_seq")?,
                            bytes: column(row, "mirrored_bytes")?,
                            checksum: column(row, "mirrored_checksum")?,
                        },
                    })
                },
            )
        })
        .await
    }

    async fn note_mirrored(
        &self,
        tenant: &TenantId,
        session: SessionId,
        position: MirrorPosition,
    ) -> Result<()> {
        let tenant = tenant.clone();
        self.write(verb!("note_mirrored"), move |connection| {
            // Two notes may cross; the file only grows.
            execute(
                connection,
                "UPDATE sessions SET mirrored_seq = ?3, mirrored_bytes = ?4, mirrored_checksum = ?5
                 WHERE tenant_id = ?1 AND id = ?2 AND mirrored_seq <= ?3",
                params![
                    tenant.as_str(),
                    session.to_string(),
                    position.seq,
                    position.bytes,
                    position.checksum
                ],
            )?;
            Ok(())
        })
        .await
    }
}
