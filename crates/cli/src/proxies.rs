//! The proxies through which sandboxed programs reach the hosts they may.

use std::any::Any;
use std::io;
use std::path::Path;

use tidegate_engine::Settings;
use tidegate_net::{EgressProxy, Guard, ProxyCredential, ProxyRules};
use tidegate_sandbox::{ProxyStarter, TurnedAway};

/// Starts them with what the configuration says for all of them.
pub(crate) struct Proxies {
    guard: Guard,
    credentials: Vec<ProxyCredential>,
}

impl Proxies {
    pub(crate) fn new(settings: &Settings, guard: Guard) -> Self {
        Self { guard, credentials: settings.egress_credentials() }
    }
}

impl ProxyStarter for Proxies {
    fn start(
        &self,
        socket: &Path,
        hosts: &[String],
        turned_away: TurnedAway,
    ) -> io::Result<Box<dyn Any + Send + Sync>> {
        let rules = ProxyRules {
            hosts: hosts.to_vec(),
            guard: self.guard.clone(),
            credentials: self.credentials.clone(),
        };
        Ok(Box::new(EgressProxy::listen_telling(socket, rules, turned_away)?))
    }
}
