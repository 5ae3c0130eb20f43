//! Signing in at somebody's authorization server: the parts that every such login is made of.
//!
//! The browser's way to a code (PKCE, the page on this machine, pasting), one question to such a server and its answer,
//! and logins that stay fresh. Which server, which client and which scopes is for those to say who use it: crate
//! `models` for vendors' accounts, crate `mcp` for servers of tools. No text of an error holds a code or a token.

mod ask;
mod callback;
mod code;
pub mod form;
mod paste;
mod pkce;
mod refresh;

use async_trait::async_trait;
use tidegate_net::NetError;

pub use ask::{Answer, ask, get, post_form};
pub use callback::Callback;
pub use code::code;
pub use paste::Expected;
pub use pkce::Pkce;
pub use refresh::{RefreshError, Refresher, Renew};

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

/// Why there is no login. No text holds a code or a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("no client id is set for {provider}; set one that you may use")]
    NoClientId { provider: &'static str },
    #[error("the login was declined")]
    Denied,
    #[error("this answer belongs to another login; begin again and use the newest address")]
    WrongState,
    #[error("this answer comes from another authorization server than the one that was asked; begin again")]
    WrongIssuer,
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
