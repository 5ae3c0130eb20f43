//! What can go wrong with durable state, in the terms callers act on.

use tidegate_policy::Principal;
use tidegate_protocol::{ErrorBody, ErrorCode, SessionKey};

use crate::version::{SCHEMA, StoredVersion};

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else owns the session now. Whoever gets this stops writing.
    #[error("the session was taken over by another owner; this run may not write any more")]
    StaleFence,
    #[error("the idempotency key was used before with another request")]
    IdempotencyConflict,
    #[error("{0} does not exist")]
    NotFound(String),
    /// A run is under way where none may be.
    #[error("the session has a run that has not ended")]
    SessionBusy,
    /// Nothing was written. Reads go on; the same write may work once there is room.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The disk failed under a commit. What is durable is unknown until a restart reads it back: the process must end.
    #[error("the disk failed: {0}")]
    Io(String),
    #[error("the database is damaged: {0}")]
    Damaged(String),
    #[error("the database cannot be written: {0}")]
    ReadOnly(String),
    #[error(
        "the data has schema {found} and needs a release that knows schema {needed}; this one knows {known}"
    )]
    Newer { found: u32, needed: u32, known: u32 },
    /// A reader came before the first writer, or to data that only a newer schema can read.
    #[error("the database is not set up yet")]
    Empty,
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    #[error("storage fault: {0}")]
    Internal(String),
}

impl StoreError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::StaleFence => ErrorCode::StaleFence,
            Self::IdempotencyConflict => ErrorCode::IdempotencyConflict,
            Self::NotFound(_) | Self::Empty => ErrorCode::NotFound,
            Self::SessionBusy => ErrorCode::SessionBusy,
            Self::Full(_) => ErrorCode::StorageFull,
            Self::Io(_) => ErrorCode::StorageIo,
            Self::Damaged(_) => ErrorCode::StorageDamaged,
            Self::ReadOnly(_) => ErrorCode::StorageReadOnly,
            Self::Newer { .. } => ErrorCode::StorageNewer,
            Self::Unavailable(_) => ErrorCode::StorageUnavailable,
            Self::Internal(_) => ErrorCode::Internal,
        }
    }

    /// Data that a newer release made and this one may not use; `needed` picks the bound that says so.
    pub fn newer(stored: Option<StoredVersion>, needed: impl Fn(StoredVersion) -> u32) -> Self {
        Self::Newer {
            found: stored.map_or(0, |version| version.schema),
            needed: stored.map_or(0, needed),
            known: SCHEMA,
        }
    }

    /// Refuses a principal of another tenant: what is elsewhere does not exist for it.
    pub fn unless_own(principal: &Principal, key: &SessionKey) -> Result<()> {
        if *principal.tenant() == key.scope.tenant {
            return Ok(());
        }
        Err(Self::NotFound(format!("session {}", key.label())))
    }

    /// Whether the process must end and read back what is durable.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Io(_))
    }
}

impl From<&StoreError> for ErrorBody {
    fn from(error: &StoreError) -> Self {
        ErrorBody::new(error.code(), error.to_string())
    }
}
