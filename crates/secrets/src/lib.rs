//! Secrets: text that a program may use and must never print, and the place where credentials rest.
//!
//! [`Secret`] carries a secret from the place where it was read to the place where it is sent; every path that would
//! show it answers [`REDACTED`]. [`CredentialStore`] keeps the credentials of providers on disk, each sealed, so that a
//! copy of its file tells who has an account and nothing more.

mod codec;
mod error;
mod files;
pub mod import;
mod keys;
mod profile;
mod seal;
mod secret;
mod store;

pub use error::SecretsError;
pub use files::Lock;
pub use keys::{KeyChoice, KeyPlace, Keychain};
pub use profile::{CLIENT_SECRET, Credential, MCP, Profile, ProfileId};
pub use secret::{REDACTED, SENSITIVE_MARK, Secret};
pub use store::{CredentialStore, Listing, ProfileSummary, Rotation, StoreOptions};
