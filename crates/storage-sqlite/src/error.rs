//! What SQLite reports, in the terms callers act on.

use rusqlite::{Error, ErrorCode, ffi};
use tidegate_storage::StoreError;

/// Shared memory of the WAL could not grow: that is a full disk, although SQLite files it under I/O errors.
fn is_full(extended: i32) -> bool {
    matches!(extended, ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_FULL)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn store_error(error: Error) -> StoreError {
    let text = error.to_string();
    let Error::SqliteFailure(failure, _) = error else { return StoreError::Internal(text) };
    if is_full(failure.extended_code) {
        return StoreError::Full(text);
    }
    match failure.code {
        ErrorCode::SystemIoFailure => StoreError::Io(text),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(text),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(text),
        ErrorCode::CannotOpen | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Unavailable(text)
        }
        _ => StoreError::Internal(text),
    }
}

/// Stored text that does not parse. The row was written by us, so the file is damaged or was edited by hand.
pub(crate) fn unreadable(what: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("stored {what} cannot be read: {detail}"))
}
