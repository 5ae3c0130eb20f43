//! Section `agents`: the agents, and the settings they share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::AgentAuth;
use super::egress::HostLists;
use super::memory_search::MemorySearch;
use super::models::ModelPolicy;
use super::sandbox::{AgentSandbox, Sandbox};
use super::subagents::{AgentSubagents, Subagents};
use super::tools::AgentTools;
use crate::format::{AGENT_ID, DURATION};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Agents {
    /// What holds for every agent that does not say otherwise.
    pub defaults: AgentDefaults,
    /// The agents.
    pub list: Vec<Agent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentDefaults {
    /// The model that answers, and those that stand in for it.
    pub model: ModelChain,
    /// Models by `provider/model`. When any is named, only these can be chosen; each may have a short name.
    pub models: BTreeMap<String, ModelAlias>,
    /// The model that looks at images for the tool `image`, and those that stand in for it; without it, those of
    /// the agent's own models that read images.
    pub image_model: ModelChain,
    /// How much a model thinks before it answers; `low` for models that can, without it.
    pub thinking_default: Option<Thinking>,
    /// Tokens of an answer at most; the model's own limit without it.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Which of the allowed models agents may use.
    pub model_policy: ModelPolicy,
    /// Seconds after which a run is ended.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u32,
    /// Rounds of tool calls before the model has to answer without tools.
    #[schemars(range(min = 1))]
    pub max_tool_steps: u32,
    /// Turns of a conversation that a model is shown at most; as many as fit without it.
    #[schemars(range(min = 1))]
    pub history_turns: Option<u32>,
    /// Another name of `lanes.main`, known from OpenClaw.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: Option<u32>,
    /// Runs that agents start for a piece of work.
    pub subagents: Subagents,
    /// Characters that are shown of each file of the workspace that is part of the instructions (`AGENTS.md`, `SOUL.md`,
    /// `TOOLS.md`, `IDENTITY.md`, `USER.md`, `HEARTBEAT.md`, `BOOTSTRAP.md`, `MEMORY.md`). With 0 they are not shown.
    pub bootstrap_max_chars: u32,
    /// Whether those files are left out of the instructions.
    pub skip_bootstrap: bool,
    /// Keeping a long conversation inside the model's context.
    pub compaction: Compaction,
    /// Thinning old tool output out of a request.
    pub context_pruning: ContextPruning,
    /// What holds the programs that agents start.
    pub sandbox: Sandbox,
    /// Searching what was remembered.
    pub memory_search: MemorySearch,
}

impl Default for AgentDefaults {
    fn default() -> Self {
        Self {
            model: ModelChain::default(),
            models: BTreeMap::new(),
            image_model: ModelChain::default(),
            thinking_default: None,
            max_tokens: None,
            model_policy: ModelPolicy::default(),
            timeout_seconds: 600,
            max_tool_steps: 50,
            history_turns: None,
            max_concurrent: None,
            subagents: Subagents::default(),
            bootstrap_max_chars: 20_000,
            skip_bootstrap: false,
            compaction: Compaction::default(),
            context_pruning: ContextPruning::default(),
            sandbox: Sandbox::default(),
            memory_search: MemorySearch::default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelChain {
    /// The model, as `provider/model`, or `offline`.
    #[schemars(length(min = 1))]
    pub primary: Option<String>,
    /// Models to try in this order when the first one fails, each as `provider/model`.
    pub fallbacks: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelAlias {
    /// A short name for it.
    pub alias: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// Not at all.
    Off,
    /// As little as the model can.
    Minimal,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
    /// As much as the model can; few can more than `high`.
    Xhigh,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Compaction {
    /// Tokens kept free for the answer, and at most a quarter of the window; compaction starts when fewer are left.
    pub reserve_tokens_floor: u32,
    /// Whether people on channels are told when their conversation was summed up without their asking.
    pub notify: bool,
    /// Writing down what matters before a compaction.
    pub memory_flush: MemoryFlush,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { reserve_tokens_floor: 20_000, notify: true, memory_flush: MemoryFlush::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryFlush {
    /// Whether the agent is asked to write its notes before a compaction.
    pub enabled: bool,
    /// Tokens before the compaction threshold at which it is asked.
    pub soft_threshold_tokens: u32,
    /// The request, in place of the built-in one.
    pub prompt: Option<String>,
}

impl Default for MemoryFlush {
    fn default() -> Self {
        Self { enabled: true, soft_threshold_tokens: 4_000, prompt: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContextPruning {
    /// When old tool output is left out of a request.
    pub mode: PruningMode,
    /// How long a provider keeps a prompt cached, as `30s`, `5m` or `1h`.
    #[schemars(regex(pattern = DURATION.pattern))]
    pub ttl: String,
    /// Results after the last so many answers are never left out.
    pub keep_last_assistants: u32,
}

impl Default for ContextPruning {
    fn default() -> Self {
        Self { mode: PruningMode::default(), ttl: "5m".to_owned(), keep_last_assistants: 3 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PruningMode {
    /// Never.
    #[default]
    Off,
    /// Once the cached prompt has expired, when a shorter one costs nothing extra.
    CacheTtl,
    /// Whenever a request fills three tenths of the model's context.
    Size,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// The agent's name in keys and paths: lower-case letters, digits, `-` and `_`, at most 64.
    #[schemars(regex(pattern = AGENT_ID.pattern))]
    pub id: String,
    /// The name people see.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether this agent answers where no rule names another.
    #[serde(default)]
    pub default: bool,
    /// This agent's model: `provider/model`, or an object as in `agents.defaults.model`.
    #[serde(default)]
    pub model: Option<AgentModel>,
    /// Which of the models that all agents may use this one may use.
    #[serde(default)]
    pub model_policy: ModelPolicy,
    /// How much this agent's model thinks before it answers.
    #[serde(default)]
    pub thinking_default: Option<Thinking>,
    /// This agent's credentials.
    #[serde(default)]
    pub auth: AgentAuth,
    /// Which of the tools that `tools` gives to all agents this one has.
    #[serde(default)]
    pub tools: AgentTools,
    /// What holds the programs that this agent starts.
    #[serde(default)]
    pub sandbox: AgentSandbox,
    /// Which of the hosts that all agents may reach this one may reach.
    #[serde(default)]
    pub egress: HostLists,
    /// Runs that this agent starts for a piece of work.
    #[serde(default)]
    pub subagents: AgentSubagents,
    /// Whether everything this agent sees must not leave: it has no web tools.
    #[serde(default)]
    pub sensitive: bool,
    /// Whether this agent only shows what it would do: every side effect is decided and recorded, none happens, and
    /// nothing is sent.
    #[serde(default)]
    pub shadow: bool,
    /// The folder the agent's tools work in; a relative path starts in the home. One in the home when absent.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub workspace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentModel {
    One(String),
    Chain(ModelChain),
}
