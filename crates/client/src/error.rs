//! Why a call brought no answer, told apart by what the caller can do.

use std::time::Duration;

use tidegate_protocol::api::Problem;
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
            Self::Nobody { .. } => ErrorCode::Unavailable,
            Self::Closing { .. } => ErrorCode::Closing,
            Self::Lost { .. } | Self::SessionEnded { .. } => ErrorCode::Interrupted,
            Self::Protocol { .. } => ErrorCode::Internal,
            Self::Deadline(_) => ErrorCode::DeadlineExceeded,
        };
        ErrorBody::new(code, self.to_string())
    }

    /// What the gateway says about mending it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Server { problem, .. } => problem.hint.as_deref(),
            _ => None,
        }
    }
}
