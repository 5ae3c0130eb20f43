//! What networks delivered, with how far they were read.

use async_trait::async_trait;
use sqlx::PgConnection;
use tidegate_protocol::{ChannelName, TenantId};
use tidegate_storage::{Accepted, Inbox, Ingest, Result, StoreError};

use crate::accept::{admit, enter};
use crate::budget::lock;
use crate::error::TxResult;
use crate::instance::check_current;
use crate::open::{ENGINE, PostgresStore};
use crate::rows::text;
use crate::text::store;
use crate::transaction::{Open, take_turns, verb};

#[async_trait]
impl Inbox for PostgresStore {
    async fn ingest(&self, ingest: Ingest) -> Result<Vec<Accepted>> {
        for message in &ingest.messages {
            StoreError::unless_own(&message.principal, &message.key)?;
            if message.key.scope.tenant != ingest.tenant {
                return Err(StoreError::NotFound(format!("session {}", message.key.label())));
            }
        }
        self.write_as(
            &ingest.tenant,
            &ingest.owner,
            verb!("ingest", claims: true),
            |Open { transaction, .. }| Box::pin(put(transaction, &ingest)),
        )
        .await
    }

    async fn cursor(
        &self,
        tenant: &TenantId,
        channel: &ChannelName,
        account_id: &str,
    ) -> Result<Option<String>> {
        if self.version() < ENGINE {
            return Ok(None);
        }
        let rows = self.rows(tenant, || {
            sqlx::query("SELECT value FROM cursors WHERE tenant_id = $1 AND channel = $2 AND account_id = $3")
                .bind(tenant.as_str())
                .bind(channel.as_str())
                .bind(store(account_id))
        });
        rows.await?.first().map(|row| text(row, "value")).transpose()
    }
}

async fn put(transaction: &mut PgConnection, ingest: &Ingest) -> TxResult<Vec<Accepted>> {
    check_current(transaction, &ingest.owner).await?;
    let keys = ingest.messages.iter().map(|message| message.key.to_string()).collect();
    take_turns(transaction, keys).await?;
    let mut accepted = Vec::with_capacity(ingest.messages.len());
    let mut entered = Vec::with_capacity(ingest.messages.len());
    for message in &ingest.messages {
        entered.push(enter(transaction, message).await?);
    }
    lock(
        transaction,
        &ingest.tenant,
        ingest.messages.iter().filter_map(|message| message.reservation.as_ref()),
    )
    .await?;
    for (message, entered) in ingest.messages.iter().zip(entered) {
        accepted.push(admit(transaction, message, entered).await?);
    }
    if let Some(cursor) = &ingest.cursor {
        sqlx::query(
            "INSERT INTO cursors (tenant_id, channel, account_id, value, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant_id, channel, account_id) DO UPDATE SET value = $4, updated_at = $5",
        )
        .bind(ingest.tenant.as_str())
        .bind(ingest.channel.as_str())
        .bind(store(&ingest.account_id))
        .bind(store(cursor))
        .bind(ingest.now)
        .execute(transaction)
        .await?;
    }
    Ok(accepted)
}
