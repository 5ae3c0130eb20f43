//! Logins at servers that run elsewhere: finding out where one signs in, signing in there, and keeping the login fresh.
//!
//! A server chooses the addresses that are asked on the way, so they are judged like everything that is chosen outside
//! (`trust`). What comes of it is sealed in the credential store under `mcp/<server>` and bound to the server's
//! address: a token is sent to that address and to no other.

mod apply;
mod challenge;
mod discover;
mod keep;
mod metadata;
mod sign_in;
mod token;
mod trust;

use tidegate_oauth::LoginError;
use tidegate_secrets::{Secret, SecretsError};

pub(crate) use challenge::Challenge;
pub(crate) use keep::Unusable;
pub use keep::{LoginSummary, Logins};
pub use sign_in::sign_in;

/// What an operator says about logins at a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OauthSpec {
    /// A client that was registered by hand. It may be the address of a document that describes it.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// What is asked for; absent: what the server says.
    pub scopes: Option<Vec<String>>,
    /// Where one signs in; absent: what the server says.
    pub issuer: Option<String>,
    /// Where the browser comes back to; absent: any free port.
    pub callback_port: Option<u16>,
}

/// Why nobody was signed in. No text holds a code or a token.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the server asks for no login, and says nowhere where one could sign in")]
    NotWanted,
    #[error("the server cannot be reached: {0}")]
    Server(String),
    #[error("{url} is not an address that is asked for a login: {why}")]
    Untrusted { url: String, why: &'static str },
    #[error("the server says it is {said}, which is not the address in the configuration")]
    OtherResource { said: String },
    #[error("{issuer} does not say how one signs in there: no metadata was found")]
    NoMetadata { issuer: String },
    #[error("{asked} says it is {said}")]
    OtherIssuer { asked: String, said: String },
    #[error("{issuer} does not offer PKCE with S256, without which a login could be stolen")]
    NoPkce { issuer: String },
    #[error(
        "{issuer} takes no client that it does not know: register one there and set oauth.clientId of the server"
    )]
    NoRegistration { issuer: String },
    #[error("the client could not be registered: {0}")]
    Registration(LoginError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Store(#[from] SecretsError),
}
