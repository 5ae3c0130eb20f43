//! How credentials stand, as the store has it, for commands that only look.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_models::{FailureKind, Standing, StandingKey, StandingStore};
use tidegate_storage::StandingRow;

/// What was read, once. Nothing is kept from here.
pub(crate) struct AsRead(Vec<(StandingKey, Standing)>);

impl AsRead {
    pub(crate) fn new(rows: Vec<StandingRow>) -> Arc<dyn StandingStore> {
        Arc::new(Self(rows.into_iter().map(read).collect()))
    }
}

#[async_trait]
impl StandingStore for AsRead {
    async fn load(&self) -> Vec<(StandingKey, Standing)> {
        self.0.clone()
    }

    async fn save(&self, _: &StandingKey, _: &Standing) {}
}

pub(crate) fn read(row: StandingRow) -> (StandingKey, Standing) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_model_stands_for_the_whole_credential() {
        let row = StandingRow {
            provider: "anthropic".to_owned(),
            profile_id: "anthropic/default".to_owned(),
            reason: Some("billing".to_owned()),
            disabled_until: Some(7),
            ..StandingRow::default()
        };
        let (key, standing) = read(row);
        assert_eq!(key.model, None);
        assert_eq!((standing.reason, standing.until()), (Some(FailureKind::Billing), 7));
    }
}
