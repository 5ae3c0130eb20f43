//! How credentials stand with their providers: what failed, and until when they rest.

use async_trait::async_trait;
use tidegate_protocol::TenantId;

use crate::error::Result;

#[async_trait]
pub trait Standings: Send + Sync {
    /// All of the tenant, by provider, credential and model.
    async fn standings(&self, tenant: &TenantId) -> Result<Vec<StandingRow>>;

    /// Keeps a standing unless a newer one is stored: the one whose last use or failure is later counts.
    async fn note_standing(&self, tenant: &TenantId, standing: StandingRow) -> Result<()>;

    /// Forgets a provider's standings, or those of one of its credentials.
    async fn clear_standings(&self, tenant: &TenantId, provider: &str, profile: Option<&str>) -> Result<()>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandingRow {
    pub provider: String,
    pub profile_id: String,
    /// Empty: all models of the credential.
    pub model: String,
    /// Failures since the last success.
    pub errors: u32,
    /// The class of the last failure.
    pub reason: Option<String>,
    /// Rests until then.
    pub cooldown_until: Option<i64>,
    /// Out of use until then: its owner has to pay or to mend it.
    pub disabled_until: Option<i64>,
    pub billing_failures: u32,
    pub last_failure_at: Option<i64>,
    pub last_used_at: Option<i64>,
}

impl StandingRow {
    /// When something last happened to it.
    pub fn as_of(&self) -> i64 {
        self.last_failure_at.max(self.last_used_at).unwrap_or(0)
    }
}
