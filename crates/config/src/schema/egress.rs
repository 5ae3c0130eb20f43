//! Keys `egress` and `agents.list[].egress`: which hosts may be reached, and keys that are put into requests on the way out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Egress {
    /// The only hosts that agents may reach, such as `example.com` or `*.example.com`; any public one without it.
    pub allow_hosts: Option<Vec<String>>,
    /// Hosts that nobody may reach, whoever allows them.
    pub deny_hosts: Vec<String>,
    /// What is narrower for a workspace, by its id.
    pub workspaces: BTreeMap<String, HostLists>,
    /// Keys that the sandbox's proxy puts into plain requests to a host, by any name.
    pub credentials: BTreeMap<String, EgressCredential>,
}

/// What may be reached of the hosts that the level above allows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HostLists {
    /// The only hosts that may be reached, such as `example.com` or `*.example.com`; all that are left without it.
    pub allow_hosts: Option<Vec<String>>,
    /// Hosts that may not be reached, whoever allows them.
    pub deny_hosts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressCredential {
    /// The one host that gets it.
    pub host: String,
    /// The header it is sent in.
    #[serde(default = "authorization")]
    #[schemars(length(min = 1))]
    pub header: String,
    /// The header's whole value, such as `Bearer ${API_KEY}`.
    pub value: Secret,
    /// Whether a request to `http://host/` is made over https, so that the key travels encrypted.
    #[serde(default = "yes")]
    pub https: bool,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

fn yes() -> bool {
    true
}
