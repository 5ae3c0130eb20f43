//! What can go wrong with credentials at rest. Texts name the file and what mends it, and never what is in it.

use std::path::PathBuf;

use crate::profile::ProfileId;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    #[error("{}: cannot {action}: {cause}", path.display())]
    Io { path: PathBuf, action: &'static str, cause: String },
    #[error(
        "{} is damaged ({cause}) and was left as it is; restore it from a backup, or move it away and log in again",
        path.display()
    )]
    Damaged { path: PathBuf, cause: String },
    #[error("{} was written by a newer release (version {version}); use that release", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("{} is in use by another process; try again when it is done", path.display())]
    Busy { path: PathBuf },
    /// The key exists, or existed, and cannot be had now. No other key is made in its place.
    #[error("the key {key} that seals the credentials is not available from {place}: {cause}; {remedy}")]
    KeyUnavailable { key: String, place: String, cause: String, remedy: String },
    #[error("the keychain cannot be used: {cause}; unlock it, or keep the key in a file")]
    KeychainUnusable { cause: String },
    /// The key is there and does not fit, or the profile was altered.
    #[error("the credential {id} in {} cannot be opened with its key; log in again or remove it", path.display())]
    Unreadable { id: ProfileId, path: PathBuf },
    #[error("the credential {id} is of the kind {kind:?}, which this release does not know")]
    UnknownKind { id: ProfileId, kind: String },
    #[error("Profile {0} not found")]
    NoSuchProfile(String),
    #[error("{0:?} is not the name of a profile; write provider/name")]
    BadId(String),
    #[error("there are too many profiles named {0}; remove one")]
    TooMany(ProfileId),
    #[error("the operating system gives no random numbers")]
    Randomness,
    #[error("the profiles to import cannot be read: {0}")]
    Import(String),
}
