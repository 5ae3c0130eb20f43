//! What holds for whoever makes a call: the hosts it may reach and the secrets it must not take along.

use tidegate_policy::HostRules;

use crate::client::{Client, Headers};
use crate::error::NetError;
use crate::guard::{Address, Guard};
use crate::leak::LeakScan;

/// What one agent may reach, and what may not leave with it.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    pub hosts: HostRules,
    pub leaks: LeakScan,
}

impl Client {
    /// The same client for calls that this holds for. It can only be narrower.
    #[must_use]
    pub fn within(&self, egress: &Egress) -> Self {
        let guard = self.guard().clone().narrowed_by(&egress.hosts).looking_for(&egress.leaks);
        self.clone().guarded_by(guard)
    }
}

impl Guard {
    /// Refuses a request that somebody outside chose if a known secret is in it.
    pub(crate) async fn scan(
        &self,
        address: &Address,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Result<(), NetError> {
        let found = |part: String, secret: String| {
            Err(NetError::Leak { host: address.host().to_owned(), part, secret })
        };
        if let Some(leak) = self.leaks().find(&[address.as_str().as_bytes()]).await {
            return found("the address".to_owned(), leak.secret);
        }
        for (name, value) in headers {
            if let Some(leak) = self.leaks().find(&[name.as_bytes()]).await {
                return found("the name of a header".to_owned(), leak.secret);
            }
            if let Some(leak) = self.leaks().find(&[value]).await {
                return found(format!("the header {name}"), leak.secret);
            }
        }
        match self.leaks().find(&[body]).await {
            Some(leak) => found("the body".to_owned(), leak.secret),
            None => Ok(()),
        }
    }

    pub(crate) async fn scan_call(
        &self,
        address: &Address,
        headers: &Headers,
        body: &[u8],
    ) -> Result<(), NetError> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name, value.expose().as_bytes())).collect();
        self.scan(address, &headers, body).await
    }
}
