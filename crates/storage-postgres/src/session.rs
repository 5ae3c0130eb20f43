//! What people do to conversations.

use async_trait::async_trait;
use serde_json::json;
use sqlx::PgConnection;
use tidegate_protocol::{Entry, SessionId, SessionKey, SessionSettings, TenantId};
use tidegate_storage::{Fork, Forked, Principal, Result, Search, Sessions, StoreError};

use crate::audit::{Audit, record};
use crate::error::TxResult;
use crate::fork::fork;
use crate::library::settings;
use crate::open::{AGENT, PostgresStore};
use crate::rows::to_json;
use crate::search::search;
use crate::text::store;
use crate::transaction::{Open, verb};

#[async_trait]
impl Sessions for PostgresStore {
    async fn session_settings(&self, key: &SessionKey) -> Result<SessionSettings> {
        if self.version() < AGENT {
            return Ok(SessionSettings::default());
        }
        let rows = self.rows(&key.scope.tenant, || {
            sqlx::query("SELECT settings_json FROM session_keys WHERE tenant_id = $1 AND session_key = $2")
                .bind(key.scope.tenant.as_str())
                .bind(key.to_string())
        });
        Ok(rows.await?.first().map(settings).transpose()?.unwrap_or_default())
    }

    async fn set_session_settings(
        &self,
        principal: &Principal,
        key: &SessionKey,
        settings: SessionSettings,
        now: i64,
    ) -> Result<()> {
        StoreError::unless_own(principal, key)?;
        let settings = &settings;
        self.write(principal.tenant(), verb!("set_session_settings"), |Open { transaction, .. }| {
            Box::pin(set_settings(transaction, principal, key, settings, now))
        })
        .await
    }

    async fn set_title(
        &self,
        principal: &Principal,
        session: SessionId,
        title: Option<&str>,
        now: i64,
    ) -> Result<bool> {
        self.write(principal.tenant(), verb!("set_title"), |Open { transaction, .. }| {
            Box::pin(set_title(transaction, principal, session, title, now))
        })
        .await
    }

    async fn fork(&self, principal: &Principal, new: Fork) -> Result<Forked> {
        StoreError::unless_own(principal, &new.key)?;
        let new = &new;
        self.write(principal.tenant(), verb!("fork"), |Open { transaction, .. }| {
            Box::pin(fork(transaction, principal, new))
        })
        .await
    }

    async fn search(&self, tenant: &TenantId, wanted: Search) -> Result<Vec<Entry>> {
        search(self, tenant, &wanted).await
    }
}

async fn set_settings(
    transaction: &mut PgConnection,
    principal: &Principal,
    key: &SessionKey,
    settings: &SessionSettings,
    now: i64,
) -> TxResult<()> {
    sqlx::query(
        "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at, settings_json)
         VALUES ($1, $2, 0, 1, $3, $4)
         ON CONFLICT (tenant_id, session_key) DO UPDATE SET settings_json = $4",
    )
    .bind(key.scope.tenant.as_str())
    .bind(key.to_string())
    .bind(now)
    .bind(to_json(settings)?)
    .execute(&mut *transaction)
    .await?;
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action: "session.settings",
        resource_type: "session",
        resource_id: &key.to_string(),
        metadata: json!(settings),
    };
    record(transaction, &audit, now).await
}

async fn set_title(
    transaction: &mut PgConnection,
    principal: &Principal,
    session: SessionId,
    title: Option<&str>,
    now: i64,
) -> TxResult<bool> {
    let touched =
        sqlx::query("UPDATE sessions SET title = $3 WHERE tenant_id = $1 AND id = $2 AND state <> 'shared'")
            .bind(principal.tenant().as_str())
            .bind(session.to_string())
            .bind(title.map(store))
            .execute(&mut *transaction)
            .await?;
    if touched.rows_affected() == 0 {
        return Ok(false);
    }
    let audit = Audit {
        tenant: principal.tenant(),
        actor: principal.actor(),
        action: "session.title",
        resource_type: "session",
        resource_id: &session.to_string(),
        metadata: json!({ "title": title }),
    };
    record(transaction, &audit, now).await?;
    Ok(true)
}
