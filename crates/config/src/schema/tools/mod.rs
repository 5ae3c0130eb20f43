//! Section `tools`: which tools agents have, and what becomes of their calls.
//!
//! Every place that has a say can only narrow what the ones before it left: profile, provider, this section, the agent.

mod custom;
mod exec;
mod rule;
mod web;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::subagents::{AgentToAgent, SessionTools};

pub use custom::{CustomBody, CustomHttp, CustomTool, ToolRisk};
pub use exec::{AgentExec, ApplyPatch, Exec, ExecAsk, ExecFallback, ExecHost, ExecSecurity};
pub use rule::{ArgumentValue, RuleExample, RuleExamples, RuleMode, RuleWhen, ToolRule};
pub use web::{SearchProvider, Web, WebFetch, WebSearch};

/// The tools that are built in; `policy` groups them and `tools` has them.
pub const KNOWN_TOOLS: &[&str] = &[
    "agents_list",
    "apply_patch",
    "browser",
    "edit",
    "exec",
    "find",
    "fs.list_dir",
    "fs.read_file",
    "grep",
    "http.request",
    "image",
    "ls",
    "memory_append",
    "process",
    "read",
    "session_status",
    "sessions_history",
    "sessions_list",
    "sessions_send",
    "sessions_spawn",
    "shell.pwd",
    "time.now",
    "tools.echo",
    "web_fetch",
    "web_search",
    "write",
];

/// Tools of other gateways, and of parts that are still to come: a list may name them.
pub const FOREIGN_TOOLS: &[&str] = &[
    "canvas",
    "cron",
    "gateway",
    "memory_get",
    "memory_search",
    "message",
    "nodes",
    "tts",
    "whatsapp_login",
];

/// Other names of tools.
pub const TOOL_ALIASES: &[&str] =
    &["apply-patch", "bash", "bash.exec", "file.edit", "file.read", "file.write", "glob"];

/// Names for several tools at once.
pub const TOOL_GROUPS: &[&str] = &[
    "group:automation",
    "group:fs",
    "group:memory",
    "group:messaging",
    "group:nodes",
    "group:plugins",
    "group:runtime",
    "group:sessions",
    "group:tidegate",
    "group:ui",
    "group:web",
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tools {
    /// Which tools there are to begin with.
    pub profile: ToolProfile,
    /// Only these, by name, glob (`fs.*`) or group (`group:fs`); everything the profile has when absent, nothing when
    /// empty.
    pub allow: Option<Vec<String>>,
    /// Never these, whatever else allows them.
    pub deny: Vec<String>,
    /// These beside what the profile has; not for agents with a profile of their own.
    pub also_allow: Vec<String>,
    /// Narrower lists while a provider or one model answers, by `provider` or `provider/model`.
    pub by_provider: BTreeMap<String, ProviderTools>,
    /// What becomes of calls, by name, glob or group; the strictest that fits counts.
    pub modes: BTreeMap<String, ToolMode>,
    /// What becomes of calls that start programs or change things elsewhere; `modes` can only be stricter. Commands have
    /// their own keys in `tools.exec`.
    pub high_risk: ToolMode,
    /// Rules about what calls touch.
    pub rules: Vec<ToolRule>,
    /// Seconds a call may take, for tools that do not say otherwise.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: u32,
    /// Commands.
    pub exec: Exec,
    /// Tools that reach out to the web.
    pub web: Web,
    /// What agents have left while their commands are confined.
    pub sandbox: StageTools,
    /// What agents have left that another agent started. Unless `allow` names them, such an agent has none of the tools
    /// for sessions, memory, schedules and the gateway itself.
    pub subagents: StageTools,
    /// The tools for sessions.
    pub sessions: SessionTools,
    /// Whether agents may reach one another's sessions.
    pub agent_to_agent: AgentToAgent,
    /// Seconds for which a call that only looks is answered from memory when it comes again in its session and nothing
    /// was changed since; 0 never.
    #[schemars(range(max = 3600))]
    pub reuse_seconds: u32,
    /// Noticing the same call made again and again.
    pub loop_detection: LoopDetection,
    /// Sessions that have seen what must not leave, by key; `*` stands for any text. They have no web tools.
    pub sensitive_sessions: Vec<String>,
    /// Tools of your own, by name; called as `tools.custom.<name>`.
    pub custom: BTreeMap<String, CustomTool>,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            profile: ToolProfile::default(),
            allow: None,
            deny: Vec::new(),
            also_allow: Vec::new(),
            by_provider: BTreeMap::new(),
            modes: BTreeMap::new(),
            high_risk: ToolMode::ApprovalRequired,
            rules: Vec::new(),
            timeout_seconds: 8,
            exec: Exec::default(),
            web: Web::default(),
            sandbox: StageTools::default(),
            subagents: StageTools::default(),
            sessions: SessionTools::default(),
            agent_to_agent: AgentToAgent::default(),
            reuse_seconds: 30,
            loop_detection: LoopDetection::default(),
            sensitive_sessions: Vec::new(),
            custom: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProfile {
    /// Next to nothing: where the session stands.
    Minimal,
    /// Looking at the workspace, changing nothing.
    #[default]
    Safe,
    /// `safe`, and changing files and running commands.
    Coding,
    /// Sending messages and looking at sessions.
    Messaging,
    /// Everything.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolMode {
    /// Never.
    Deny,
    /// Without asking.
    Allow,
    /// Once a person has approved it.
    ApprovalRequired,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderTools {
    /// A narrower profile.
    pub profile: Option<ToolProfile>,
    /// Only these.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// A stage that has only its lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StageTools {
    /// The lists.
    pub tools: ToolLists,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolLists {
    /// Only these.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoopDetection {
    /// Whether it is looked for.
    pub enabled: bool,
    /// Identical calls with identical results after which the model is told.
    #[schemars(range(min = 2, max = 100))]
    pub warn_at: u32,
    /// After which the call is refused.
    #[schemars(range(min = 2, max = 100))]
    pub stop_at: u32,
}

impl Default for LoopDetection {
    fn default() -> Self {
        Self { enabled: true, warn_at: 3, stop_at: 5 }
    }
}

/// What one agent leaves of the tools that `tools` gives to all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentTools {
    /// The profile this agent begins with, in place of `tools.profile`.
    pub profile: Option<ToolProfile>,
    /// Only these.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// These beside what the profile has.
    pub also_allow: Vec<String>,
    /// Narrower lists while a provider or one model answers.
    pub by_provider: BTreeMap<String, ProviderTools>,
    /// What becomes of calls; stricter than `tools.modes`, never weaker.
    pub modes: BTreeMap<String, ToolMode>,
    /// More rules about what calls touch.
    pub rules: Vec<ToolRule>,
    /// Commands; stricter than `tools.exec`, never weaker.
    pub exec: AgentExec,
    /// What the agent has left while its commands are confined.
    pub sandbox: StageTools,
    /// What the agent has left when another agent started it.
    pub subagents: StageTools,
}
