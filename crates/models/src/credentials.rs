//! Where a call gets its credential from.

use async_trait::async_trait;

use crate::failure::Failure;
use crate::rotation::Candidate;
use crate::wire::Access;

/// A credential ready for a call.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) access: Access,
    /// Where it is to be used, when the credential decides that.
    pub(crate) base_url: Option<String>,
}

#[async_trait]
pub(crate) trait Credentials: Send + Sync {
    /// What there is for a provider. Asked before each run: a login may have come or gone.
    async fn candidates(&self, provider: &str) -> Result<Vec<Candidate>, Failure>;

    /// The one its owner chose last.
    async fn preferred(&self, provider: &str) -> Option<String>;

    /// Fetches one, renewed first if it has run out, or if the provider refused it (`renew`).
    async fn grant(&self, provider: &str, profile_id: &str, renew: bool) -> Result<Granted, Failure>;
}
