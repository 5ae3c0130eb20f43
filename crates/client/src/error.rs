//! Why a call brought no answer, told apart by what the caller can do.

use std::time::Duration;

use tidegate_protocol::api::{CallProblem, Problem};
use tidegate_protocol::{ErrorBody, ErrorCode, RunId};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no socket, or the one that is there belongs to nobody.
    #[error("nobody listens on {at}")]
    Nobody { at: String },
    /// The gateway ends: nothing of the request was accepted, or nobody can tell. The same key may be sent again.
    #[error("the gateway on {at} is closing")]
    Closing { at: String },
    /// The gateway answered, and not with a success.
    #[error("{}", .problem.message)]
    Server { status: u16, problem: Box<Problem> },
    /// The gateway refused a request on a link.
    #[error("{}", .problem.message)]
    Refused { problem: Box<CallProblem> },
    /// The connection ended after the run was accepted: the run exists.
    #[error("the connection to the gateway ended while it answered run {run}")]
    Lost { run: RunId },
    /// The gateway does not know the MCP session any more.
    #[error("the gateway on {at} has ended this MCP session")]
    SessionEnded { at: String },
    /// Whatever answers is no gateway of this kind.
    #[error("{at} does not answer like a gateway: {what}")]
    Protocol { at: String, what: String },
    #[error("the gateway did not answer within {} ms", .0.as_millis())]
    Deadline(Duration),
}

impl ClientError {
    pub fn body(&self) -> ErrorBody {
        let code = match self {
            Self::Server { problem, .. } => return problem.as_ref().clone().body(),
            Self::Refused { problem } => return ErrorBody::new(problem.code, problem.message.clone()),
            Self::Nobody { .. } => ErrorCode::Unavailable,
            Self::Closing { .. } => ErrorCode::Closing,
            Self::Lost { .. } | Self::SessionEnded { .. } => ErrorCode::Interrupted,
            Self::Protocol { .. } => ErrorCode::Internal,
            Self::Deadline(_) => ErrorCode::DeadlineExceeded,
        };
        ErrorBody::new(code, self.to_string())
    }

    /// Whether the same request may succeed later. One that changes something needs a key to be sent again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Nobody { .. } | Self::Closing { .. } | Self::Deadline(_) => true,
            Self::Server { problem, .. } => problem.code.is_retryable(),
            Self::Refused { problem } => problem.retryable,
            Self::Lost { .. } | Self::SessionEnded { .. } | Self::Protocol { .. } => false,
        }
    }

    /// What the gateway says about mending it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Server { problem, .. } => problem.hint.as_deref(),
            Self::Refused { problem } => problem.hint.as_deref(),
            _ => None,
        }
    }
}
