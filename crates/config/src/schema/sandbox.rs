//! Keys `agents.defaults.sandbox` and `agents.list[].sandbox`: what holds the programs that agents start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Sandbox {
    /// What holds programs. What cannot be used here is refused; nothing weaker takes its place.
    pub profile: SandboxProfile,
    /// Whose programs it holds; the others run on the bare machine.
    pub mode: SandboxMode,
    /// Which conversations share a place: its `/tmp`, its container, and its folder when `workspaceAccess` is `none`.
    pub scope: SandboxScope,
    /// What programs may do with the agent's workspace.
    pub workspace_access: WorkspaceAccess,
    /// What programs reach over the network.
    pub network: SandboxNetwork,
    /// Hosts they reach with `network: "allowlist"`, such as `pypi.org` or `*.example.com`.
    pub allow_hosts: Vec<String>,
    /// What the programs of one command may use up together.
    pub limits: SandboxLimits,
    /// Containers.
    pub container: SandboxContainer,
    /// Small machines.
    pub microvm: SandboxMicrovm,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxProfile {
    /// Nothing: programs have the rights of the gateway.
    None,
    /// This machine's kernel: bubblewrap when it is installed, else Landlock and seccomp.
    #[default]
    Local,
    /// A container of docker or podman.
    Container,
    /// A machine of its own (QEMU).
    Microvm,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nobody's.
    Off,
    /// Those of every conversation but the agent's main one.
    NonMain,
    /// Everybody's.
    #[default]
    All,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxScope {
    /// Each has its own.
    Session,
    /// Those of one agent.
    #[default]
    Agent,
    /// All.
    Shared,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceAccess {
    /// They do not see it; they work in a folder of their own, and so do the file tools.
    None,
    /// They can look at it.
    Ro,
    /// They can change it.
    #[default]
    Rw,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// Nothing.
    #[default]
    None,
    /// The hosts of `allowHosts`, through the gateway's own proxy.
    Allowlist,
    /// Everything this machine reaches.
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Megabytes of memory.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub memory_mb: u32,
    /// Processes and threads.
    #[schemars(range(min = 4, max = 65_536))]
    pub processes: u32,
    /// Megabytes that may be written to disks.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub disk_mb: u32,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { memory_mb: 2_048, processes: 512, disk_mb: 8_192 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxContainer {
    /// Which program makes containers.
    pub engine: ContainerEngine,
    /// The image; it has to be there already, nothing is fetched by itself.
    #[schemars(length(min = 1))]
    pub image: String,
    /// A runtime in place of the engine's usual one, such as `runsc` for gVisor.
    pub runtime: Option<String>,
    /// The user that programs run as; the owner of the workspace without it.
    pub user: Option<String>,
}

impl Default for SandboxContainer {
    fn default() -> Self {
        Self {
            engine: ContainerEngine::default(),
            image: "tidegate-sandbox:latest".to_owned(),
            runtime: None,
            user: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContainerEngine {
    /// Whichever works, docker first.
    #[default]
    Auto,
    /// Docker, whose daemon has to run.
    Docker,
    /// Podman, which needs no daemon.
    Podman,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxMicrovm {
    /// The kernel to boot; the newest in `/boot` without it.
    pub kernel: Option<String>,
    /// Processors of the machine; 1 without it.
    #[schemars(range(min = 1, max = 64))]
    pub cpus: Option<u32>,
}

/// What one agent has of its own; the rest is that of `agents.defaults.sandbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSandbox {
    /// What holds this agent's programs.
    pub profile: Option<SandboxProfile>,
    /// Whose programs it holds.
    pub mode: Option<SandboxMode>,
    /// Which of its conversations share a place.
    pub scope: Option<SandboxScope>,
    /// What programs may do with its workspace.
    pub workspace_access: Option<WorkspaceAccess>,
    /// What programs reach over the network.
    pub network: Option<SandboxNetwork>,
    /// Hosts they reach, in place of those of all agents.
    pub allow_hosts: Option<Vec<String>>,
    /// What the programs of one command may use up together.
    pub limits: Option<SandboxLimits>,
}
