//! What can go wrong between a request and its answer.

use std::path::PathBuf;

use tidegate_models::CannotSpeak;
use tidegate_protocol::{ErrorBody, ErrorCode, RunId};
use tidegate_runtime::RandomnessError;
use tidegate_storage::StoreError;

use crate::sessions::NameError;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run ended, and not with an answer.
    #[error("{}", .error.message)]
    Run { run: RunId, error: ErrorBody },
    #[error("the home folder {} is held by {holder}", .path.display())]
    HomeBusy { path: PathBuf, holder: String },
    #[error("{} cannot be used: {cause}", .path.display())]
    HomeUnusable { path: PathBuf, cause: std::io::Error },
    #[error("tools cannot work in {}: it is part of the gateway's own state, which no tool may reach. Go to another folder (cd) and try again", .path.display())]
    OwnState { path: PathBuf },
    /// The process ends and takes nothing new; another try may find the next one.
    #[error("shutting down; try again in a moment")]
    Closing,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Models(#[from] CannotSpeak),
    /// A model, a rule or a budget stands against it.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

impl EngineError {
    pub fn body(&self) -> ErrorBody {
        let code = match self {
            Self::Store(error) => return ErrorBody::from(error),
            Self::Run { error, .. } | Self::Refused(error) => return error.clone(),
            Self::HomeBusy { .. } => ErrorCode::HomeBusy,
            Self::HomeUnusable { cause, .. } => match cause.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
                _ => ErrorCode::HomeUnusable,
            },
            Self::OwnState { .. } => ErrorCode::InvalidValue,
            Self::Closing => ErrorCode::Closing,
            Self::Settings(error) => return error.body(),
            Self::Name(error) => error.code(),
            Self::Models(error) => return error.body(),
            Self::Randomness(_) => ErrorCode::Internal,
        };
        ErrorBody::new(code, self.to_string())
    }
}
