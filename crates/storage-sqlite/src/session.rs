//! What people do to conversations.

use async_trait::async_trait;
use rusqlite::params;
use serde_json::json;
use tidegate_protocol::{Entry, SessionId, SessionKey, SessionSettings, TenantId};
use tidegate_storage::{Fork, Forked, Principal, Result, Search, Sessions, StoreError};

use crate::audit::{Audit, record};
use crate::fork::fork;
use crate::library::settings;
use crate::open::SqliteStore;
use crate::rows::{execute, first, to_json};
use crate::search::search;
use crate::writer::verb;

#[async_trait]
impl Sessions for SqliteStore {
    async fn session_settings(&self, key: &SessionKey) -> Result<SessionSettings> {
        let key = key.clone();
        self.read(move |connection| {
            let chosen = first(
                connection,
                "SELECT * FROM session_keys WHERE tenant_id = ?1 AND session_key = ?2",
                params![key.scope.tenant.as_str(), key.to_string()],
                settings,
            )?;
            Ok(chosen.unwrap_or_default())
        })
        .await
    }

    async fn set_session_settings(
        &self,
        principal: &Principal,
        key: &SessionKey,
        settings: SessionSettings,
        now: i64,
    ) -> Result<()> {
        StoreError::unless_own(principal, key)?;
        let (principal, key) = (principal.clone(), key.clone());
        self.write(verb!("set_session_settings"), move |connection| {
            execute(
                connection,
                "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at, settings_json)
                 VALUES (?1, ?2, 0, 1, ?3, ?4)
                 ON CONFLICT (tenant_id, session_key) DO UPDATE SET settings_json = ?4",
                params![key.scope.tenant.as_str(), key.to_string(), now, to_json(&settings)?],
            )?;
            let audit = Audit {
                tenant: principal.tenant(),
                actor: principal.actor(),
                action: "session.settings",
                resource_type: "session",
                resource_id: &key.to_string(),
                metadata: json!(settings),
            };
            record(connection, &audit, now)
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
        let (principal, title) = (principal.clone(), title.map(str::to_owned));
        self.write(verb!("set_title"), move |connection| {
            let touched = execute(
                connection,
                "UPDATE sessions SET title = ?3 WHERE tenant_id = ?1 AND id = ?2 AND state <> 'shared'",
                params![principal.tenant().as_str(), session.to_string(), title],
            )?;
            if touched == 0 {
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
            record(connection, &audit, now)?;
            Ok(true)
        })
        .await
    }

    async fn fork(&self, principal: &Principal, new: Fork) -> Result<Forked> {
        StoreError::unless_own(principal, &new.key)?;
        let principal = principal.clone();
        self.write(verb!("fork"), move |connection| fork(connection, &principal, &new)).await
    }

    async fn search(&self, tenant: &TenantId, wanted: Search) -> Result<Vec<Entry>> {
        let tenant = tenant.clone();
        self.read(move |connection| search(connection, &tenant, &wanted)).await
    }
}
