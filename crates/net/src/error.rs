//! What can go wrong between us and a server.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use tidegate_policy::HostRefusal;

use crate::address::AddressClass;

/// Why there is no (whole) answer. The texts name hosts at most.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    #[error("{0:?} is not an address that can be called")]
    BadAddress(String),
    /// Somebody outside chose it, and it is not a public one.
    #[error("{host} is not called: {}it is {class}", address.map(|it| format!("it resolves to {it}, and ")).unwrap_or_default())]
    Forbidden { host: String, address: Option<IpAddr>, class: AddressClass },
    /// Somebody outside chose it, and the rules about hosts leave it out.
    #[error("{0}")]
    Refused(#[from] HostRefusal),
    /// Somebody outside chose it, and a secret was in it. Nothing was sent.
    #[error(
        "EGRESS_LEAK: nothing was sent to {host}, because {part} of the request has a secret in it: {secret}; \
         what needs a key is configured with it (egress.credentials, tools.custom)"
    )]
    Leak { host: String, part: String, secret: String },
    #[error("the name {0} cannot be resolved")]
    Unresolved(String),
    #[error("no connection to {host}: {cause}")]
    Unreachable { host: String, cause: String },
    #[error("no connection to {host} within {seconds} s")]
    ConnectTimeout { host: String, seconds: u64 },
    #[error("{host} sent nothing for {seconds} s")]
    Idle { host: String, seconds: u64 },
    /// Bytes had been exchanged, or may have been.
    #[error("the connection to {host} broke: {cause}")]
    Broken { host: String, cause: String },
    #[error("{host} had not answered in full after {within:?}")]
    Deadline { host: String, within: Duration },
    #[error("{host} redirects more than {limit} times")]
    Redirects { host: String, limit: usize },
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
    #[error("the request to {host} is larger than {limit} bytes")]
    BodyTooLarge { host: String, limit: usize },
}

impl NetError {
    /// Whether time ran out, rather than something being refused or broken.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ConnectTimeout { .. } | Self::Idle { .. } | Self::Deadline { .. })
    }

    /// The innermost cause: the outer ones only repeat that a request failed, and name the whole address.
    pub(crate) fn cause(error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        cause.to_string()
    }

    /// Whether a name could not be resolved; the resolver's error has no type of its own on the way up.
    pub(crate) fn is_unresolved(error: &reqwest::Error) -> bool {
        let mut cause: Option<&dyn std::error::Error> = error.source();
        while let Some(inner) = cause {
            if inner.to_string().contains("dns error") {
                return true;
            }
            cause = inner.source();
        }
        false
    }
}
