//! Why a model gave no whole answer, in the classes that decide what happens next.

use std::time::Duration;

use serde::Serialize;
use tidegate_protocol::{ErrorBody, ErrorCode};

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The credential is missing, wrong, expired or not allowed to do this.
    Auth,
    /// Too many requests or tokens for now.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// No credit, or a plan that ended.
    Billing,
    /// No connection, or silence for too long.
    Timeout,
    /// The provider does not accept what we sent.
    Format,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    NoSuchModel,
    /// The provider's filter, or the model, declined to answer.
    Refused,
    /// The model ended without a word.
    Empty,
    /// The run may not cost that much.
    CostLimit,
    /// The connection broke, or the server failed, or what it sent cannot be read.
    Broken,
}

impl FailureKind {
    /// The name in events, rows and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rateLimit",
            Self::Overloaded => "overloaded",
            Self::Billing => "billing",
            Self::Timeout => "timeout",
            Self::Format => "format",
            Self::ContextOverflow => "contextOverflow",
            Self::NoSuchModel => "noSuchModel",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::CostLimit => "costLimit",
            Self::Broken => "broken",
        }
    }

    /// Whether the credential is left alone for a while after it.
    pub(crate) fn counts_against_credential(self) -> bool {
        matches!(self, Self::Auth | Self::RateLimit | Self::Overloaded | Self::Billing)
    }

    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Auth,
            Self::RateLimit,
            Self::Overloaded,
            Self::Billing,
            Self::Timeout,
            Self::Format,
            Self::ContextOverflow,
            Self::NoSuchModel,
            Self::Refused,
            Self::Empty,
            Self::CostLimit,
            Self::Broken,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }
}

/// One failure of one call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// For a person: the provider's own words where it gave some, without secrets.
    pub message: String,
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }

    /// What whoever asked is told.
    pub fn body(&self) -> ErrorBody {
        let code = match self.kind {
            FailureKind::ContextOverflow => ErrorCode::ContextOverflow,
            FailureKind::CostLimit => ErrorCode::BudgetExceeded,
            FailureKind::Auth => ErrorCode::AuthRequired,
            _ => ErrorCode::ModelUnavailable,
        };
        let mut body = ErrorBody::new(code, self.message.clone());
        body.details = Some(serde_json::json!({ "reason": self.kind.as_str(), "status": self.status }));
        body
    }
}
