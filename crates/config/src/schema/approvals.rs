//! Section `approvals`: questions to people about calls of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approvals {
    /// Seconds after which a question that nobody answered is settled.
    #[schemars(range(min = 1, max = 86400))]
    pub expiry_seconds: u32,
    /// Whether people may approve what they asked for themselves.
    pub self_approval: SelfApproval,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { expiry_seconds: 300, self_approval: SelfApproval::default() }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SelfApproval {
    /// They may: a personal home has one person.
    #[default]
    Allow,
    /// Somebody else has to. They may still say no.
    Deny,
}
