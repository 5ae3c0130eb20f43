//! Somebody whose identity was proven at the edge.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_protocol::TenantId;

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
