//! The keys of `config.json5` as plain data, one file a section.
//!
//! The structs are the single description of the file: types, defaults, ranges and the words of the reference
//! all come from here. They hold no behaviour beyond their defaults; the crates that act on a key have settings
//! types of their own. Names are those of OpenClaw wherever the same thing exists there.

mod agents;
mod approvals;
mod auth;
mod browser;
mod budgets;
mod channels;
mod egress;
mod env;
mod gateway;
mod hooks;
mod lanes;
mod logging;
mod mcp;
mod memory_search;
mod meta;
mod models;
mod sandbox;
mod services;
mod session;
mod storage;
mod subagents;
mod tools;
mod ui;

pub use agents::{
    Agent, AgentDefaults, AgentModel, Agents, Compaction, ContextPruning, MemoryFlush, ModelAlias,
    ModelChain, PruningMode, Thinking,
};
pub use approvals::{Approvals, SelfApproval};
pub use auth::{AgentAuth, Auth, AuthClient, AuthMode, AuthProfile, Cooldowns, KeyStore};
pub use browser::{Browser, BrowserProfile};
pub use budgets::{Budget, Budgets};
pub use channels::{ChannelSettings, Channels, LocalAccount, LocalChannel};
pub use egress::{Egress, EgressCredential, HostLists};
pub use env::EnvSection;
pub use gateway::{Bind, Gateway};
pub use hooks::{HookAction, HookMapping, HookMatch, Hooks, WakeMode};
pub use lanes::{Cron, Lanes};
pub use logging::{LogLevel, Logging, RedactSensitive};
pub use mcp::{Mcp, McpOauth, McpSandbox, McpServer, McpTools};
pub use memory_search::{HybridSearch, MemoryCache, MemoryProvider, MemoryQuery, MemorySearch};
pub use meta::Meta;
pub use models::{
    KNOWN_PROVIDERS, MaxTokensField, Model, ModelApi, ModelCompat, ModelCost, ModelInput, ModelPolicy,
    Models, Provider, ThinkingFormat,
};
pub use sandbox::{
    AgentSandbox, ContainerEngine, Sandbox, SandboxContainer, SandboxLimits, SandboxMicrovm, SandboxMode,
    SandboxNetwork, SandboxProfile, SandboxScope, WorkspaceAccess,
};
pub use services::{RestartPolicy, Service, ServiceHealth, ServiceRestart, ServiceSandbox};
pub use session::{
    DmScope, GroupCommands, Reset, ResetByType, ResetDuringRun, ResetMode, ResetOverride, Session,
};
pub use storage::{Backend, Postgres, Storage};
pub use subagents::{AgentSubagents, AgentToAgent, SessionTools, SessionVisibility, Subagents};
pub use tools::{
    AgentExec, AgentTools, ApplyPatch, ArgumentValue, CustomBody, CustomHttp, CustomTool, Exec, ExecAsk,
    ExecFallback, ExecHost, ExecSecurity, FOREIGN_TOOLS, KNOWN_TOOLS, LoopDetection, ProviderTools,
    RuleExample, RuleExamples, RuleMode, RuleWhen, SearchProvider, StageTools, TOOL_ALIASES, TOOL_GROUPS,
    ToolLists, ToolMode, ToolProfile, ToolRisk, ToolRule, Tools, Web, WebFetch, WebSearch,
};
pub use ui::{Language, Ui};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything a config file can say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Address of a JSON Schema for editors; not read.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// What the last program that wrote the file noted about itself; accepted and ignored.
    pub meta: Option<Meta>,
    /// Variables for `${VAR}`.
    pub env: EnvSection,
    /// The gateway's own server.
    pub gateway: Gateway,
    /// Agents and what they have in common.
    pub agents: Agents,
    /// How many runs are under way at once.
    pub lanes: Lanes,
    /// What starts by itself.
    pub cron: Cron,
    /// Where models come from.
    pub models: Models,
    /// Credentials for them.
    pub auth: Auth,
    /// What may be spent on them.
    pub budgets: Budgets,
    /// What agents can do.
    pub tools: Tools,
    /// What agents and their programs may reach over the network.
    pub egress: Egress,
    /// Servers whose tools agents can use.
    pub mcp: Mcp,
    /// The browser they use pages with.
    pub browser: Browser,
    /// Programs that run as long as the gateway does, by name.
    pub services: std::collections::BTreeMap<String, Service>,
    /// Questions to people about what agents want to do.
    pub approvals: Approvals,
    /// How conversations are kept apart and when they start afresh.
    pub session: Session,
    /// Chat networks, by name.
    pub channels: Channels,
    /// The database.
    pub storage: Storage,
    /// What is written to the log.
    pub logging: Logging,
    /// Webhooks.
    pub hooks: Hooks,
    /// What people see.
    pub ui: Ui,
}
