//! What SQLite reports, in the terms callers act on.

use std::path::Path;

use rusqlite::{Error, ErrorCode};
use tidegate_storage::StoreError;

/// Less than this and nothing of a commit fits.
const NO_ROOM: u64 = 64 << 10;

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn store_error(error: Error) -> StoreError {
    let text = error.to_string();
    let Error::SqliteFailure(failure, _) = error else { return StoreError::Internal(text) };
    match failure.code {
        ErrorCode::DiskFull => StoreError::Full(text),
        ErrorCode::SystemIoFailure => StoreError::Io(text),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(text),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(text),
        ErrorCode::CannotOpen | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Unavailable(text)
        }
        _ => StoreError::Internal(text),
    }
}

/// SQLite files some effects of a full disk under I/O errors (the WAL's shared memory cannot grow). Only the disk
/// itself can tell the two apart, and only one of them is fatal.
pub(crate) fn full_or_failed(error: StoreError, path: &Path) -> StoreError {
    let StoreError::Io(text) = error else { return error };
    let folder = path.parent().unwrap_or(Path::new("."));
    match rustix::fs::statvfs(folder) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < NO_ROOM => StoreError::Full(text),
        _ => StoreError::Io(text),
    }
}

/// Stored text that does not parse. The row was written by us, so the file is damaged or was edited by hand.
pub(crate) fn unreadable(what: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("stored {what} cannot be read: {detail}"))
}
