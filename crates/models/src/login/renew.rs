//! Which vendor is asked for new tokens, and how.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_net::Client;
use tidegate_oauth::{LoginError, Refresher, Renew};
use tidegate_runtime::Clock;
use tidegate_secrets::{Credential, CredentialStore, Profile};

use super::{LoginSettings, codex, copilot};

/// Keeps the vendors' logins of a store fresh.
pub fn refresher(
    store: Arc<CredentialStore>,
    client: Client,
    settings: LoginSettings,
    clock: Arc<dyn Clock>,
) -> Refresher {
    let vendors = Vendors { client, settings, clock: Arc::clone(&clock) };
    Refresher::new(store, Box::new(vendors), clock)
}

struct Vendors {
    client: Client,
    settings: LoginSettings,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Renew for Vendors {
    async fn renew(&self, profile: &Profile) -> Option<Result<Credential, LoginError>> {
        let old = &profile.credential;
        match profile.provider.as_str() {
            codex::PROVIDER => {
                Some(codex::refresh(&self.client, &self.settings.codex, old, self.clock.as_ref()).await)
            }
            copilot::PROVIDER => Some(copilot::refresh(&self.client, &self.settings.copilot, old).await),
            _ => None,
        }
    }
}
