//! Logins: how a person's account with a provider becomes a credential, and how that credential stays fresh.
//!
//! Nothing here names a client of a vendor: who may log in as which client is between the person and the vendor, so the
//! client id is a setting. Addresses are settings too, with the vendors' own as defaults.

pub mod codex;
pub mod copilot;
mod jwt;
mod renew;

pub use renew::refresher;
pub use tidegate_oauth::{LoginError, LoginUi, RefreshError, Refresher};

/// What logins need to know.
#[derive(Debug, Clone, Default)]
pub struct LoginSettings {
    pub codex: codex::Settings,
    pub copilot: copilot::Settings,
}

impl LoginSettings {
    /// The vendors' own addresses, where the configuration names no others.
    pub fn new(config: &tidegate_config::schema::Auth) -> Self {
        let mut settings = Self::default();
        if let Some(client) = config.clients.get(codex::PROVIDER) {
            let Self { codex, .. } = &mut settings;
            codex.client_id.clone_from(&client.client_id);
            set(&mut codex.endpoints.authorize, client.authorize_url.as_ref());
            set(&mut codex.endpoints.token, client.token_url.as_ref());
            codex.port = client.callback_port.unwrap_or(codex.port);
        }
        if let Some(client) = config.clients.get(copilot::PROVIDER) {
            let Self { copilot, .. } = &mut settings;
            copilot.client_id.clone_from(&client.client_id);
            set(&mut copilot.endpoints.device_code, client.authorize_url.as_ref());
            set(&mut copilot.endpoints.access_token, client.token_url.as_ref());
            set(&mut copilot.endpoints.exchange, client.exchange_url.as_ref());
        }
        settings
    }
}

fn set(address: &mut String, said: Option<&String>) {
    if let Some(said) = said {
        address.clone_from(said);
    }
}
