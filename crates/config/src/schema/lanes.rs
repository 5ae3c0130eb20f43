//! Sections `lanes` and `cron`: how many runs are under way at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lanes {
    /// Runs under way at once that people and programs asked for; 64 without it.
    #[schemars(range(min = 1, max = 1000))]
    pub main: Option<u32>,
    /// Those that schedules and webhooks started; 5 without it.
    #[schemars(range(min = 1, max = 1000))]
    pub cron: Option<u32>,
    /// Subagents that work at once, of all conversations; 3 without it.
    #[schemars(range(min = 1, max = 1000))]
    pub subagent: Option<u32>,
    /// Runs that another run waits for; 2 without it.
    #[schemars(range(min = 1, max = 1000))]
    pub nested: Option<u32>,
    /// Milliseconds that a run may wait for a free place before the log says so; 0 for never.
    #[schemars(range(max = 86_400_000))]
    pub warn_after_ms: u64,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { main: None, cron: None, subagent: None, nested: None, warn_after_ms: 2_000 }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cron {
    /// Another name of `lanes.cron`, known from OpenClaw.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent_runs: Option<u32>,
}
