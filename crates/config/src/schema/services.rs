//! Section `services`: programs that run as long as the gateway does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

use super::sandbox::{SandboxLimits, SandboxNetwork, SandboxProfile};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// Whether it is started.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The program, by path or name. No shell reads it.
    #[schemars(length(min = 1))]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables it gets beside the plain ones.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
    /// The folder it works in and may write to; one of its own in the home when absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// How to find out whether it does its work; that it runs is enough when absent.
    #[serde(default)]
    pub health: Option<ServiceHealth>,
    /// What happens when it ends.
    #[serde(default)]
    pub restart: ServiceRestart,
    /// Seconds it has to end by itself before it is killed.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 300))]
    pub stop_seconds: u32,
    /// What holds it, where that differs from `agents.defaults.sandbox`.
    #[serde(default)]
    pub sandbox: ServiceSandbox,
}

/// One of `http`, `tcp` and `command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceHealth {
    /// An address that answers with a status from 200 to 299.
    pub http: Option<String>,
    /// A `host:port` that takes connections.
    pub tcp: Option<String>,
    /// A command that ends with status 0, a word each; it is held as the service is.
    pub command: Vec<String>,
    /// Seconds between two looks.
    #[schemars(range(min = 1, max = 3600))]
    pub interval_seconds: u32,
    /// Seconds one look may take.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// Seconds until the first good look; after that it is started again.
    #[schemars(range(min = 1, max = 3600))]
    pub start_seconds: u32,
    /// Bad looks in a row after which it is started again.
    #[schemars(range(min = 1, max = 100))]
    pub failures: u32,
}

impl Default for ServiceHealth {
    fn default() -> Self {
        Self {
            http: None,
            tcp: None,
            command: Vec::new(),
            interval_seconds: 30,
            timeout_seconds: 5,
            start_seconds: 60,
            failures: 3,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceRestart {
    /// When it is started again.
    pub policy: RestartPolicy,
    /// Milliseconds before the first time; twice as long each time after that.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub backoff_ms: u32,
    /// Milliseconds it is waited at most.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub max_backoff_ms: u32,
    /// Times in a row after which it is given up; 0 never gives up.
    pub attempts: u32,
}

impl Default for ServiceRestart {
    fn default() -> Self {
        Self { policy: RestartPolicy::default(), backoff_ms: 1_000, max_backoff_ms: 60_000, attempts: 10 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Whenever it ended.
    #[default]
    Always,
    /// When it failed: a status other than 0, a signal, or bad health.
    OnFailure,
    /// It stays ended until somebody restarts it.
    Never,
}

/// What is absent is as in `agents.defaults.sandbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceSandbox {
    /// What holds it.
    pub profile: Option<SandboxProfile>,
    /// What it reaches over the network.
    pub network: Option<SandboxNetwork>,
    /// Hosts it reaches with `network: "allowlist"`.
    pub allow_hosts: Option<Vec<String>>,
    /// What it may use up.
    pub limits: Option<SandboxLimits>,
}

fn yes() -> bool {
    true
}

fn ten() -> u32 {
    10
}
