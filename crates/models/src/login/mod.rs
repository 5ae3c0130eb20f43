//! Logins: how a person's account with a provider becomes a credential, and how that credential stays fresh.
//!
//! Nothing here names a client of a vendor: who may log in as which client is between the person and the vendor, so the
//! client id is a setting. Addresses are settings too, with the vendors' own as defaults.

mod ask;
mod callback;
pub mod codex;
pub mod copilot;
#[cfg(test)]
mod fake;
mod form;
mod jwt;
mod paste;
mod pkce;
mod refresh;

use async_trait::async_trait;
pub use refresh::{RefreshError, Refresher};
use tidegate_net::NetError;

/// The person who logs in, at whatever surface.
#[async_trait]
pub trait LoginUi: Send + Sync {
    /// An address to open in a browser.
    fn show_url(&self, url: &str);
    /// An address to open anywhere, and the code to type there.
    fn show_code(&self, url: &str, code: &str);
    /// What the person pastes: a code, or the address the browser ended at. `None` when there is nobody to paste.
    async fn paste(&self) -> Option<String>;
}

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

/// Why there is no login. No text holds a code or a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("no client id is set for {provider}; set one that you may use")]
    NoClientId { provider: &'static str },
    #[error("the login was declined")]
    Denied,
    #[error("this answer belongs to another login; begin again and use the newest address")]
    WrongState,
    #[error("there is no code in it; paste the code, or the whole address the browser ended at")]
    NoCode,
    #[error("nobody logged in in time; begin again")]
    TimedOut,
    #[error("the provider refused ({reason})")]
    Refused { status: u16, reason: String },
    #[error(
        "the provider answered with something else ({reason}); is there a proxy or a sign-in page between?"
    )]
    Unexpected { status: u16, reason: String },
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the operating system gives no random numbers")]
    Randomness,
}

impl LoginError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            // Whoever sent something that is not the protocol has said nothing about the login.
            Self::Net(_) | Self::TimedOut | Self::Unexpected { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
            _ => false,
        }
    }
}
