//! Section `env`: variables that the file brings along.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvSection {
    /// Values for variables that the environment does not set. A value may refer to the environment and to the
    /// variables above it.
    pub vars: BTreeMap<String, Secret>,
}
