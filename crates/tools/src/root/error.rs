//! Why a path leads nowhere.

use crate::truncate::head_bytes;

/// How much of a path an error repeats.
const SHOWN: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path is empty")]
    Empty,
    #[error("the path contains a NUL character")]
    Nul,
    #[error("the path is too long: {0}…")]
    TooLong(String),
    #[error("{0} is not a path that is understood here: give it relative to the working folder")]
    Form(String),
    #[error("{0} is outside the working folder")]
    Outside(String),
    #[error("{0} is off limits: no tool may touch it")]
    Forbidden(String),
    #[error("{0} leads through too many symbolic links")]
    Loop(String),
    #[error("{0} does not exist")]
    Missing(String),
    #[error("{0} exists already")]
    Exists(String),
    #[error("{0} is not a folder")]
    NotAFolder(String),
    #[error("{0} is a folder, not a file")]
    IsAFolder(String),
    #[error("{0} is neither a regular file nor a folder")]
    Special(String),
    #[error("{path} is too large ({size} > {cap} bytes)")]
    TooLarge { path: String, size: u64, cap: u64 },
    #[error("{0} has a name that is not UTF-8")]
    Name(String),
    #[error("{0} was changed by somebody else in the meantime: look at it again")]
    Changed(String),
    #[error("{path}: {cause}")]
    Io { path: String, cause: String },
}

impl PathError {
    pub(crate) fn io(path: &str, error: &std::io::Error) -> Self {
        let path = shown(path);
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Missing(path),
            std::io::ErrorKind::NotADirectory => Self::NotAFolder(path),
            std::io::ErrorKind::AlreadyExists => Self::Exists(path),
            // A link where none was a moment ago: links are never opened.
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::Changed(path),
            _ => Self::Io { path, cause: error.to_string() },
        }
    }
}

/// As much of a path as an error repeats.
pub(crate) fn shown(path: &str) -> String {
    head_bytes(path, SHOWN).to_owned()
}
