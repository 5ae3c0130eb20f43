//! What Postgres and its driver report, in the terms callers act on.
//!
//! An address in a message is `host:port`; the URL with its password never reaches a message.

use std::borrow::Cow;
use std::error::Error as _;
use std::io;

use sqlx::error::DatabaseError;
use tidegate_storage::StoreError;

/// Why a transaction did not happen.
#[derive(Debug)]
pub(crate) enum TxError {
    /// A verdict of ours.
    Store(StoreError),
    Sql(sqlx::Error),
    /// A statement, or the commit, was not answered in time.
    NoAnswer,
    /// The answer to a commit that claims something was lost. Whether we hold it is unknown until a restart reads it
    /// back: trying again would find it taken, by ourselves.
    Undecided,
}

pub(crate) type TxResult<T> = Result<T, TxError>;

impl From<StoreError> for TxError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for TxError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl TxError {
    /// Whether Postgres undid the transaction only because of its neighbours: the same one may pass now.
    pub(crate) fn is_collision(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        match error.code().as_deref() {
            Some("40001" | "40P01") => true,
            // Two logs got the same short name at once; the next try sees the other one and goes without.
            Some("23505") => error.constraint() == Some("sessions_alias"),
            _ => false,
        }
    }

    pub(crate) fn into_store(self, address: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error) => store_error(&error, address),
            Self::NoAnswer => StoreError::Unavailable(format!("{address}: no answer in time")),
            Self::Undecided => StoreError::Io(format!("{address}: the answer to a commit was lost")),
        }
    }
}

/// The five characters by which Postgres names an error.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}

/// What the server says, without the driver's words around it.
pub(crate) fn message(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

pub(crate) fn store_error(error: &sqlx::Error, address: &str) -> StoreError {
    let unavailable = |text: &str| StoreError::Unavailable(format!("{address}: {text}"));
    match error {
        sqlx::Error::Database(error) => database_error(error.as_ref(), address),
        sqlx::Error::Io(error) => unavailable(&io_text(error)),
        sqlx::Error::Tls(error) => unavailable(&format!("no secure connection: {error}")),
        sqlx::Error::PoolTimedOut => unavailable("no free connection in time"),
        sqlx::Error::PoolClosed => unavailable("the store was closed"),
        sqlx::Error::Protocol(text) => unavailable(&format!("not understood: {text}")),
        sqlx::Error::BeginFailed | sqlx::Error::WorkerCrashed => unavailable("the connection broke"),
        // The driver quotes the setting it dislikes, and a setting may hold the password.
        sqlx::Error::Configuration(_) => {
            StoreError::Internal(format!("{address}: the connection is not set up right"))
        }
        other => StoreError::Internal(other.to_string()),
    }
}

fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused; is the server running?".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the connection broke".to_owned()
        }
        _ => error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}

fn database_error(error: &dyn DatabaseError, address: &str) -> StoreError {
    let code = error.code();
    let code = code.as_deref().unwrap_or("");
    by_code(code, &format!("{address}: {} ({code})", error.message()))
}

/// The SQLSTATE decides; see the appendix of error codes in the Postgres manual.
fn by_code(code: &str, text: &str) -> StoreError {
    let text = text.to_owned();
    match code {
        "53100" => StoreError::Full(text),
        "25006" => StoreError::ReadOnly(text),
        "XX001" | "XX002" => StoreError::Damaged(text),
        // Lock and statement timeouts, shutdown, start-up, too many connections, out of memory, collisions.
        "55P03" | "57014" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53200" | "53300" | "40001"
        | "40P01" => StoreError::Unavailable(text),
        // Connection exceptions, and logins that are refused.
        _ if code.starts_with("08") || code.starts_with("28") => StoreError::Unavailable(text),
        // The database does not exist.
        "3D000" => StoreError::Unavailable(text),
        _ => StoreError::Internal(text),
    }
}

/// Stored text that does not parse. The row was written by us, so it is damaged or was edited by hand.
pub(crate) fn unreadable(what: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("stored {what} cannot be read: {detail}"))
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::ErrorCode;

    use super::*;

    #[test]
    fn a_code_leads_to_what_the_caller_can_do() {
        for (code, expected) in [
            ("53100", ErrorCode::StorageFull),
            ("25006", ErrorCode::StorageReadOnly),
            ("XX001", ErrorCode::StorageDamaged),
            ("57P01", ErrorCode::StorageUnavailable),
            ("08006", ErrorCode::StorageUnavailable),
            ("28P01", ErrorCode::StorageUnavailable),
            ("55P03", ErrorCode::StorageUnavailable),
            ("42P01", ErrorCode::Internal),
            ("", ErrorCode::Internal),
        ] {
            assert_eq!(by_code(code, "x").code(), expected, "{code}");
        }
    }

    #[test]
    fn a_setting_the_driver_dislikes_is_not_quoted() {
        let error = sqlx::Error::Configuration("bad value hunter2".into());
        assert!(!store_error(&error, "db:5432").to_string().contains("hunter2"));
    }

    #[test]
    fn a_refused_connection_says_where() {
        let error = sqlx::Error::Io(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(
            store_error(&error, "db:5432"),
            StoreError::Unavailable("db:5432: connection refused; is the server running?".to_owned())
        );
    }
}
