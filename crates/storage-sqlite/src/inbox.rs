//! What networks delivered, with how far they were read.

use async_trait::async_trait;
use rusqlite::params;
use tidegate_protocol::{ChannelName, TenantId};
use tidegate_storage::{Accepted, Inbox, Ingest, Result, StoreError};

use crate::accept::accept;
use crate::instance::check_current;
use crate::migrate::has_schema;
use crate::open::SqliteStore;
use crate::rows::{column, execute, first};
use crate::writer::verb;

#[async_trait]
impl Inbox for SqliteStore {
    async fn ingest(&self, ingest: Ingest) -> Result<Vec<Accepted>> {
        for message in &ingest.messages {
            StoreError::unless_own(&message.principal, &message.key)?;
            if message.key.scope.tenant != ingest.tenant {
                return Err(StoreError::NotFound(format!("session {}", message.key.label())));
            }
        }
        self.write(verb!("ingest"), move |connection| {
            check_current(connection, &ingest.owner)?;
            let accepted: Result<Vec<Accepted>> =
                ingest.messages.iter().map(|message| accept(connection, message)).collect();
            let accepted = accepted?;
            if let Some(cursor) = &ingest.cursor {
                execute(
                    connection,
                    "INSERT INTO cursors (tenant_id, channel, account_id, value, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (tenant_id, channel, account_id) DO UPDATE SET value = ?4, updated_at = ?5",
                    params![
                        ingest.tenant.as_str(),
                        ingest.channel.as_str(),
                        ingest.account_id,
                        cursor,
                        ingest.now
                    ],
                )?;
            }
            Ok(accepted)
        })
        .await
    }

    async fn cursor(
        &self,
        tenant: &TenantId,
        channel: &ChannelName,
        account_id: &str,
    ) -> Result<Option<String>> {
        let (tenant, channel, account) = (tenant.clone(), channel.clone(), account_id.to_owned());
        self.read(move |connection| {
            if !has_schema(connection, 3)? {
                return Ok(None);
            }
            first(
                connection,
                "SELECT value FROM cursors WHERE tenant_id = ?1 AND channel = ?2 AND account_id = ?3",
                params![tenant.as_str(), channel.as_str(), account],
                |row| column(row, "value"),
            )
        })
        .await
    }
}
