//! Somebody whose identity was proven at the edge.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_protocol::{ChannelName, TenantId};

/// Who acts. Built where an identity is proven, then only passed on: no request field can name an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    tenant: TenantId,
    actor: String,
}

impl Principal {
    /// The person at the keyboard of a personal home: whoever may write the home folder owns it.
    pub fn local_owner(tenant: TenantId) -> Self {
        Self { tenant, actor: "local:owner".to_owned() }
    }

    /// Somebody on a network, as the connector that verified the delivery names them.
    pub fn peer(tenant: TenantId, channel: &ChannelName, account: &str, peer: &str) -> Self {
        Self { tenant, actor: format!("{channel}:{account}:{peer}") }
    }

    /// A program that showed the token of the webhooks, under the configured name of the hook.
    pub fn webhook(tenant: TenantId, hook: &str) -> Self {
        Self { tenant, actor: format!("hook:{hook}") }
    }

    /// Whoever a stored run was accepted for: the identity was proven then, and the row kept it.
    pub fn of_run(tenant: TenantId, actor: String) -> Self {
        Self { tenant, actor }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The name audit rows carry.
    pub fn actor(&self) -> &str {
        &self.actor
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.actor)
    }
}
