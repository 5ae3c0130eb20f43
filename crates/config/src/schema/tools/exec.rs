//! Keys `tools.exec`: which commands run, where, and who is asked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Exec {
    /// Where commands run.
    pub host: ExecHost,
    /// Which commands may run at all.
    pub security: ExecSecurity,
    /// When a person is asked.
    pub ask: ExecAsk,
    /// What becomes of a question that nobody answered in time.
    pub ask_fallback: ExecFallback,
    /// Filters that need no approval as long as they only read their input.
    pub safe_bins: Vec<String>,
    /// Seconds after which a command is killed.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_sec: u32,
    /// Milliseconds after which a command that still runs goes on in the background.
    #[schemars(range(min = 10, max = 120_000))]
    pub background_ms: u32,
    /// Folders to look for programs in before those of the system; absolute.
    pub path_prepend: Vec<String>,
    /// Variables that commands get. They get none of the gateway's own.
    pub env: BTreeMap<String, Secret>,
    /// The tool `apply_patch`.
    pub apply_patch: ApplyPatch,
}

impl Default for Exec {
    fn default() -> Self {
        let filters = ["jq", "grep", "cut", "sort", "uniq", "head", "tail", "tr", "wc"];
        Self {
            host: ExecHost::default(),
            security: ExecSecurity::default(),
            ask: ExecAsk::default(),
            ask_fallback: ExecFallback::default(),
            safe_bins: filters.map(str::to_owned).to_vec(),
            timeout_sec: 1_800,
            background_ms: 10_000,
            path_prepend: Vec::new(),
            env: BTreeMap::new(),
            apply_patch: ApplyPatch::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecHost {
    /// Confined; as long as nothing confines them, every command asks.
    #[default]
    Sandbox,
    /// On the bare machine, with the gateway's rights.
    Gateway,
    /// On a paired device. Not available yet.
    Node,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecSecurity {
    /// None.
    Deny,
    /// Those that somebody allowed for good, and safe filters; `ask` says what becomes of the others.
    #[default]
    Allowlist,
    /// All, apart from those that the program never runs.
    Full,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExecAsk {
    /// Never: what is not allowed is refused.
    Off,
    /// About commands that are not on the allowlist.
    #[default]
    OnMiss,
    /// About every command.
    Always,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecFallback {
    /// It is refused.
    #[default]
    Deny,
    /// It runs if the allowlist covers it.
    Allowlist,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApplyPatch {
    /// Whether there is such a tool.
    pub enabled: bool,
}

impl Default for ApplyPatch {
    fn default() -> Self {
        Self { enabled: true }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentExec {
    /// Which commands may run; the stricter of this and `tools.exec.security` holds.
    pub security: Option<ExecSecurity>,
    /// When a person is asked; the stricter of this and `tools.exec.ask` holds.
    pub ask: Option<ExecAsk>,
}
