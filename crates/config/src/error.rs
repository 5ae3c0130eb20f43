//! The errors of loading, editing and keeping a config, each with a stable code.

use std::io;
use std::path::{Path, PathBuf};

use crate::path::PathError;
use crate::problem::{Problem, code, common_code, lines};

/// A config that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{}: cannot be read: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    /// The file, then one line a problem.
    #[error("{}:\n{}", file.display(), lines(problems))]
    Invalid { file: PathBuf, problems: Vec<Problem> },
}

impl LoadError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => code::IO,
            Self::Invalid { problems, .. } => common_code(problems),
        }
    }

    /// What is wrong with the file; empty when it could not be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Io { .. } => &[],
            Self::Invalid { problems, .. } => problems,
        }
    }
}

/// A write to the config or its revisions that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {action}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("config changed since last load; re-run config.get and retry")]
    Conflict,
    #[error("{}: another program has been changing the config for {seconds} seconds; try again", lock.display())]
    Busy { lock: PathBuf, seconds: u64 },
    #[error("there is no revision {number} of this config")]
    NoRevision { number: u64 },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::Busy { .. } => code::IO,
            Self::Conflict => code::CONFLICT,
            Self::NoRevision { .. } => code::NOT_FOUND,
        }
    }
}

/// An edit that did not happen. The file is as it was, byte for byte.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file as it stands cannot be read, so it cannot be edited.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file would have these problems after the edit.
    #[error("{}: not changed, because it would then be wrong:\n{}", file.display(), lines(problems))]
    Refused { file: PathBuf, problems: Vec<Problem> },
    #[error("{}: not changed, because it is written in a way that cannot be edited in place ({reason}); edit it by hand", file.display())]
    Unsupported { file: PathBuf, reason: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EditError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Load(error) => error.code(),
            Self::Path(error) => error.code(),
            Self::Refused { problems, .. } => common_code(problems),
            Self::Unsupported { .. } => code::SYNTAX,
            Self::Store(error) => error.code(),
        }
    }

    /// What would be wrong with the file, or is.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Load(error) => error.problems(),
            Self::Refused { problems, .. } => problems,
            Self::Path(_) | Self::Unsupported { .. } | Self::Store(_) => &[],
        }
    }
}
