//! What runs may start, and who may reach whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::{AgentModel, Thinking};

/// `agents.defaults.subagents`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Subagents {
    /// The model of subagents: `provider/model`, or an object as in `agents.defaults.model`; the agent's own without it.
    pub model: Option<AgentModel>,
    /// How much that model thinks before it answers.
    pub thinking: Option<Thinking>,
    /// How deep subagents may start subagents; with 1 only a conversation's own runs may.
    #[schemars(range(min = 1, max = 5))]
    pub max_depth: u8,
    /// Subagents of one conversation that may be under way.
    #[schemars(range(min = 1, max = 100))]
    pub max_children: u32,
    /// Another name of `lanes.subagent`, known from OpenClaw.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: Option<u32>,
    /// Other agents that may be started; `*` stands for all.
    pub allow_agents: Vec<String>,
}

impl Default for Subagents {
    fn default() -> Self {
        Self {
            model: None,
            thinking: None,
            max_depth: 1,
            max_children: 5,
            max_concurrent: None,
            allow_agents: Vec::new(),
        }
    }
}

/// `agents.list[].subagents`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSubagents {
    /// The model of this agent's subagents.
    pub model: Option<AgentModel>,
    /// How much that model thinks before it answers.
    pub thinking: Option<Thinking>,
    /// Other agents that this one may start, in place of those that all may.
    pub allow_agents: Option<Vec<String>>,
}

/// `tools.sessions`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionTools {
    /// Which other sessions a session may look into and write to.
    pub visibility: SessionVisibility,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionVisibility {
    /// `main` and named sessions see all of their agent; groups, direct messages and subagents only themselves and
    /// what they started.
    #[default]
    Place,
    /// Every session sees only itself and what it started.
    Tree,
    /// Every session but a subagent's sees all of its agent.
    Agent,
}

/// `tools.agentToAgent`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentToAgent {
    /// Whether agents may look into the sessions of other agents and write to them.
    pub enabled: bool,
    /// Only between these agents; between all when absent. `*` stands for any text.
    pub allow: Option<Vec<String>>,
}
