//! How credentials do, kept in the store, so that the next process does not begin with one that is cooling down.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_models::{FailureKind, Standing, StandingKey, StandingStore};
use tidegate_protocol::TenantId;
use tidegate_storage::{StandingRow, Store};

pub struct StoredStandings {
    store: Arc<dyn Store>,
    tenant: TenantId,
}

impl StoredStandings {
    pub fn new(store: Arc<dyn Store>, tenant: TenantId) -> Self {
        Self { store, tenant }
    }
}

#[async_trait]
impl StandingStore for StoredStandings {
    async fn load(&self) -> Vec<(StandingKey, Standing)> {
        match self.store.standings(&self.tenant).await {
            Ok(rows) => rows.into_iter().map(of_row).collect(),
            Err(error) => {
                tracing::warn!(%error, "the standings of credentials cannot be read; all count as good");
                Vec::new()
            }
        }
    }

    async fn save(&self, key: &StandingKey, standing: &Standing) {
        if let Err(error) = self.store.note_standing(&self.tenant, to_row(key, standing)).await {
            tracing::warn!(%error, provider = key.provider, "the standing of a credential cannot be kept");
        }
    }
}

/// A standing as the store has it.
pub fn of_row(row: StandingRow) -> (StandingKey, Standing) {
    let key = StandingKey {
        provider: row.provider,
        profile_id: row.profile_id,
        model: Some(row.model).filter(|model| !model.is_empty()),
    };
    let standing = Standing {
        errors: row.errors,
        billing_failures: row.billing_failures,
        reason: row.reason.as_deref().and_then(FailureKind::parse),
        cooldown_until: row.cooldown_until.unwrap_or(0),
        disabled_until: row.disabled_until.unwrap_or(0),
        last_failure_at: row.last_failure_at.unwrap_or(0),
        last_used_at: row.last_used_at.unwrap_or(0),
    };
    (key, standing)
}

fn to_row(key: &StandingKey, standing: &Standing) -> StandingRow {
    let set = |at: i64| (at != 0).then_some(at);
    StandingRow {
        provider: key.provider.clone(),
        profile_id: key.profile_id.clone(),
        model: key.model.clone().unwrap_or_default(),
        errors: standing.errors,
        reason: standing.reason.map(|kind| kind.as_str().to_owned()),
        cooldown_until: set(standing.cooldown_until),
        disabled_until: set(standing.disabled_until),
        billing_failures: standing.billing_failures,
        last_failure_at: set(standing.last_failure_at),
        last_used_at: set(standing.last_used_at),
    }
}
