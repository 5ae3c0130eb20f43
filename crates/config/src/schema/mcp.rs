//! Keys `mcp`: servers whose tools agents can use.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

use super::sandbox::{SandboxLimits, SandboxNetwork, SandboxProfile};
use super::tools::{ToolMode, ToolRisk};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mcp {
    /// Servers by name. A tool of theirs is called `mcp.<server>.<tool>`.
    pub servers: BTreeMap<String, McpServer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpServer {
    /// The program of a server that is started here and speaks on its input and output.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables it gets. Of the gateway's own it gets none but those that name the place and the language.
    pub env: BTreeMap<String, Secret>,
    /// The folder it works in; a folder of its own when absent.
    pub cwd: Option<String>,
    /// The address of a server that runs elsewhere (Streamable HTTP), in place of a command.
    pub url: Option<String>,
    /// Headers for it.
    pub headers: BTreeMap<String, Secret>,
    /// How one signs in there (`tidegate mcp login`).
    pub oauth: McpOauth,
    /// Whether it is used.
    pub enabled: bool,
    /// Which of its tools are there, by their names at the server; `*` stands for anything.
    pub tools: McpTools,
    /// What becomes of calls of its tools. With `allow` those that change something still ask as `tools.highRisk` says.
    pub mode: ToolMode,
    /// What its tools can do at worst. When absent, `read` for those that the server says only read, else `execute`.
    pub risk: Option<ToolRisk>,
    /// Seconds a call may take.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: u32,
    /// Seconds it may take to start and to list its tools.
    #[schemars(range(min = 1, max = 600))]
    pub startup_timeout_seconds: u32,
    /// What holds its program, where that differs from `agents.defaults.sandbox`.
    pub sandbox: McpSandbox,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            oauth: McpOauth::default(),
            enabled: true,
            tools: McpTools::default(),
            mode: ToolMode::ApprovalRequired,
            risk: None,
            timeout_seconds: 60,
            startup_timeout_seconds: 30,
            sandbox: McpSandbox::default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpTools {
    /// Only these; all when absent.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// How one signs in at a server that runs elsewhere. Nothing of it is needed where servers say all there is to know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpOauth {
    /// A client that was registered by hand; when absent, one registers itself. It may be the address of a document that
    /// describes it.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<Secret>,
    /// What is asked for; when absent, what the server says.
    pub scopes: Option<Vec<String>>,
    /// Where one signs in; when absent, what the server says. One that is not public has to be named here.
    pub authorization_server: Option<String>,
    /// The port of this machine that the browser comes back to; any free one when absent.
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

/// What holds one server's program; the rest is that of `agents.defaults.sandbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpSandbox {
    /// What holds it.
    pub profile: Option<SandboxProfile>,
    /// What it reaches over the network.
    pub network: Option<SandboxNetwork>,
    /// Hosts it reaches with `network: "allowlist"`.
    pub allow_hosts: Option<Vec<String>>,
    /// What it may use up.
    pub limits: Option<SandboxLimits>,
    /// Folders and files that it may read, besides its own folder and the system's programs. Where its command lies is
    /// found out.
    pub read: Vec<String>,
    /// Folders that it may write to as well.
    pub write: Vec<String>,
}
