//! Why a gateway cannot begin to listen.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::RandomnessError;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "another program listens on {address}; choose another port with --port or `tidegate config set gateway.port <n>`"
    )]
    PortInUse { address: SocketAddr },
    #[error("cannot listen on {address}: {cause}; choose another with --port, gateway.port or gateway.bind")]
    Port { address: SocketAddr, cause: io::Error },
    #[error("cannot listen on {}: {cause}", .path.display())]
    Socket { path: PathBuf, cause: io::Error },
    #[error("cannot use {}: {cause}", .path.display())]
    Token { path: PathBuf, cause: io::Error },
    #[error("{} does not hold a token; remove it and start again, a new one is made", .path.display())]
    TokenDamaged { path: PathBuf },
    #[error("no port is open here")]
    NoPort,
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

impl ServeError {
    pub(crate) fn port(address: SocketAddr, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse { address },
            _ => Self::Port { address, cause },
        }
    }

    pub fn body(&self) -> ErrorBody {
        let code = match self {
            Self::PortInUse { .. } => ErrorCode::PortInUse,
            Self::Port { .. } => ErrorCode::InvalidValue,
            Self::Socket { .. } | Self::Token { .. } | Self::TokenDamaged { .. } => ErrorCode::HomeUnusable,
            Self::NoPort => ErrorCode::Unavailable,
            Self::Randomness(_) => ErrorCode::Internal,
        };
        ErrorBody::new(code, self.to_string())
    }
}
