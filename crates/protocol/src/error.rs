//! Errors with stable codes: one list for the command line, the wire and the documentation.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal),+ $(,)?) => {
        /// A stable name for what went wrong. A code is never renamed and never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, TS)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $variant,)+
        }

        impl ErrorCode {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// What it means, for the generated reference.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

codes! {
    /// The command line names a command that does not exist.
    UnknownCommand = "UNKNOWN_COMMAND",
    /// The command line has an option that this command does not know.
    UnknownOption = "UNKNOWN_OPTION",
    /// An option or argument that needs a value has none.
    MissingValue = "MISSING_VALUE",
    /// A value is not one of those accepted.
    InvalidValue = "INVALID_VALUE",
    /// `ask` was given nothing to ask.
    AskInputRequired = "ASK_INPUT_REQUIRED",
    /// The named model provider is neither built in nor configured.
    UnsupportedProvider = "UNSUPPORTED_PROVIDER",
    /// The provider needs a credential that is not there.
    AuthRequired = "AUTH_REQUIRED",
    /// No model of the chain could be used.
    ModelUnavailable = "MODEL_UNAVAILABLE",
    /// The conversation is longer than the model can read.
    ContextOverflow = "CONTEXT_OVERFLOW",
    /// A rule forbids it.
    PolicyDenied = "POLICY_DENIED",
    /// A budget of the day or the month has no room for the run.
    BudgetExceeded = "BUDGET_EXCEEDED",
    /// The stored credentials cannot be read: their key is lost, locked away or another one.
    CredentialsUnreadable = "CREDENTIALS_UNREADABLE",
    /// A login did not come to an end that gives a credential.
    LoginFailed = "LOGIN_FAILED",
    /// The run did not end before its deadline.
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    /// The run was ended by somebody.
    Aborted = "ABORTED",
    /// The process ended while the run was under way, and nobody waits for its answer any more.
    Interrupted = "INTERRUPTED",
    /// The run crashed the process three times and is not tried again.
    Poison = "POISON",
    /// Another run of the same session did not end in time.
    SessionBusy = "SESSION_BUSY",
    /// The same idempotency key came with another request.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
    /// Another owner took the session over; this one may not write any more.
    StaleFence = "STALE_FENCE",
    /// Nothing of that name or id exists.
    NotFound = "NOT_FOUND",
    /// The program knows the feature, but this version cannot do it yet.
    Unavailable = "UNAVAILABLE",
    /// The process is shutting down and takes nothing new.
    Closing = "CLOSING",
    /// Another process holds the home folder.
    HomeBusy = "HOME_BUSY",
    /// The home folder cannot be made or written.
    HomeUnusable = "HOME_UNUSABLE",
    /// The database file is damaged.
    StorageDamaged = "STORAGE_DAMAGED",
    /// The disk is full; nothing was written and a later try may work.
    StorageFull = "STORAGE_FULL",
    /// The disk failed; the process must end and recover from what is durable.
    StorageIo = "STORAGE_IO",
    /// The database may not be written.
    StorageReadOnly = "STORAGE_READ_ONLY",
    /// The data was written by a newer release.
    StorageNewer = "STORAGE_NEWER",
    /// The database does not answer.
    StorageUnavailable = "STORAGE_UNAVAILABLE",
    /// The configuration is not valid JSON5.
    ConfigSyntax = "CONFIG_SYNTAX",
    /// The configuration has unknown keys or wrong values.
    ConfigInvalid = "CONFIG_INVALID",
    /// An included configuration file is missing, broken or circular.
    ConfigInclude = "CONFIG_INCLUDE",
    /// The configuration refers to an environment variable that is not set.
    ConfigEnvMissing = "CONFIG_ENV_MISSING",
    /// The configuration changed since it was read.
    ConfigConflict = "CONFIG_CONFLICT",
    /// The configuration file cannot be read or written.
    ConfigIo = "CONFIG_IO",
    /// A configuration path is not well formed.
    ConfigPath = "CONFIG_PATH",
    /// A configuration value is not well formed.
    ConfigValue = "CONFIG_VALUE",
    /// Nobody proved who they are: no token, cookie or control socket.
    Unauthorized = "UNAUTHORIZED",
    /// The request came from a place that may not make it.
    Forbidden = "FORBIDDEN",
    /// A login code is unknown, was used, or is too old.
    LoginCodeInvalid = "LOGIN_CODE_INVALID",
    /// Too many wrong tries; a later one is heard again.
    TooManyRequests = "TOO_MANY_REQUESTS",
    /// The request cannot be read.
    BadRequest = "BAD_REQUEST",
    /// The request is larger than the gateway takes.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE",
    /// The body is not of a type the gateway reads.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE",
    /// The address exists, but not for this method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED",
    /// Another program listens on the address.
    PortInUse = "PORT_IN_USE",
    /// The audit trail is not what was sealed.
    AuditBroken = "AUDIT_BROKEN",
    /// A gateway runs in this home already.
    GatewayRunning = "GATEWAY_RUNNING",
    /// No gateway runs in this home.
    GatewayStopped = "GATEWAY_STOPPED",
    /// A fault of the program itself.
    Internal = "INTERNAL",
}

impl ErrorCode {
    /// Reads a stored code; one this release does not know reads as `Internal`.
    pub fn parse(text: &str) -> Self {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).unwrap_or(Self::Internal)
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::ModelUnavailable
                | Self::SessionBusy
                | Self::HomeBusy
                | Self::Closing
                | Self::StorageFull
                | Self::StorageUnavailable
                | Self::ConfigConflict
                | Self::TooManyRequests
        )
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(deserializer)?))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error as it crosses a wire or is kept with a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "unknown")]
    pub details: Option<Value>,
}

impl ErrorBody {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_is_unique_and_comes_back_from_its_text() {
        let texts: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), *code);
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn a_code_of_a_newer_release_reads_as_internal() {
        assert_eq!(ErrorCode::parse("FROM_THE_FUTURE"), ErrorCode::Internal);
        let body: ErrorBody = serde_json::from_str(r#"{"code": "FROM_THE_FUTURE", "message": "m"}"#).unwrap();
        assert_eq!(body, ErrorBody::new(ErrorCode::Internal, "m"));
    }
}
