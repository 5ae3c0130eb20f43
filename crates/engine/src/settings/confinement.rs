//! From configuration to how an agent's programs are held.

use std::path::{Path, PathBuf};

use tidegate_config::schema::{
    AgentSandbox, ExecHost, SandboxContainer, SandboxLimits, SandboxMicrovm, SandboxMode, SandboxNetwork,
    SandboxProfile, SandboxScope, WorkspaceAccess,
};
use tidegate_policy::{Access, Besides, Confinement, Digest, Limits, Network, Profile};
use tidegate_protocol::{Scope, SessionKey};

use super::Settings;
use crate::home::Home;

const MEGABYTE: u64 = 1 << 20;

/// The keys of the configuration that say how programs are held, whether or not they are written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinementKeys {
    pub profile: String,
    pub place: String,
    pub access: String,
    pub network: String,
    pub limits: String,
}

/// Folders of a person's home that hold keys and logins.
const KEYS_OF_A_HOME: [&str; 12] = [
    ".aws",
    ".azure",
    ".config/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".docker",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".ssh",
];

/// What programs that work in `folder` do not see of the home of the person who runs this: whoever begins in his home
/// shows its files, and not his keys.
pub fn keys_in(folder: &Path, home: Option<&str>) -> Vec<PathBuf> {
    let Some(home) = home.and_then(|home| Path::new(home).canonicalize().ok()) else { return Vec::new() };
    if !home.starts_with(folder) {
        return Vec::new();
    }
    let real = KEYS_OF_A_HOME.iter().filter_map(|name| home.join(name).canonicalize().ok());
    real.filter(|path| path.is_dir() && path.starts_with(folder) && path != folder).collect()
}

impl Settings {
    /// Which keys decide about the programs of a conversation.
    pub fn confinement_keys(&self, scope: &Scope, session: &str) -> ConfinementKeys {
        let own = self.own_sandbox(scope);
        let key = |is_own: bool, name: &str| {
            let whose = if is_own { format!("list[{}]", scope.agent) } else { "defaults".to_owned() };
            format!("agents.{whose}.sandbox.{name}")
        };
        let profile = if self.config.tools.exec.host == ExecHost::Gateway {
            "tools.exec.host".to_owned()
        } else if self.holds(scope, session) {
            key(own.profile.is_some(), "profile")
        } else {
            key(own.mode.is_some(), "mode")
        };
        ConfinementKeys {
            profile,
            place: key(own.scope.is_some(), "scope"),
            access: key(own.workspace_access.is_some(), "workspaceAccess"),
            network: key(own.network.is_some(), "network"),
            limits: key(own.limits.is_some(), "limits"),
        }
    }

    /// What holds the programs of a conversation, `session` being its key as text.
    pub fn profile(&self, scope: &Scope, session: &str) -> Profile {
        if !self.holds(scope, session) || self.config.tools.exec.host == ExecHost::Gateway {
            return Profile::None;
        }
        let (own, all) = (self.own_sandbox(scope), &self.config.agents.defaults.sandbox);
        profile_of(own.profile.unwrap_or(all.profile))
    }

    /// Whether the conversation is one of those whose programs are held.
    fn holds(&self, scope: &Scope, session: &str) -> bool {
        let mode = self.own_sandbox(scope).mode.unwrap_or(self.config.agents.defaults.sandbox.mode);
        match mode {
            SandboxMode::Off => false,
            SandboxMode::NonMain => session != SessionKey::named(scope.clone(), "main").to_string(),
            SandboxMode::All => true,
        }
    }

    /// Where they work: in the agent's workspace, or in the folder that a sandbox has in its place. Those that nothing
    /// holds work in the workspace.
    pub fn working_folder(&self, scope: &Scope, session: &str, home: &Home) -> PathBuf {
        if self.sees_no_workspace(scope, session) {
            return home.sandboxes().join(self.sandbox_place(scope, session)).join("work");
        }
        self.workspace(&scope.agent, home)
    }

    /// Whether they see an empty folder in place of any other, also of one that a caller names.
    pub fn sees_no_workspace(&self, scope: &Scope, session: &str) -> bool {
        self.workspace_access(scope) == WorkspaceAccess::None && self.profile(scope, session) != Profile::None
    }

    /// Everything that holds the programs which work in `folder`.
    pub fn confinement(
        &self,
        scope: &Scope,
        session: &str,
        folder: &Path,
        hidden: Vec<PathBuf>,
    ) -> Confinement {
        let (own, all) = (self.own_sandbox(scope), &self.config.agents.defaults.sandbox);
        let limits = own.limits.as_ref().unwrap_or(&all.limits);
        Confinement {
            profile: self.profile(scope, session),
            place: self.sandbox_place(scope, session),
            folder: folder.to_owned(),
            access: match self.workspace_access(scope) {
                WorkspaceAccess::Ro => Access::ReadOnly,
                WorkspaceAccess::None | WorkspaceAccess::Rw => Access::ReadWrite,
            },
            hidden,
            besides: Besides::default(),
            network: match own.network.unwrap_or(all.network) {
                SandboxNetwork::None => Network::None,
                SandboxNetwork::Allowlist => {
                    Network::Allowlist(self.program_hosts(scope, &self.sandbox_hosts(scope)))
                }
                SandboxNetwork::Full => Network::Full,
            },
            limits: self::limits(limits),
        }
    }

    /// The hosts that an agent's programs were given, before the rules about all hosts.
    pub(super) fn sandbox_hosts(&self, scope: &Scope) -> Vec<String> {
        let own = self.own_sandbox(scope).allow_hosts;
        own.unwrap_or_else(|| self.config.agents.defaults.sandbox.allow_hosts.clone())
    }

    /// The name of the place that a conversation's programs share with others.
    pub(crate) fn sandbox_place(&self, scope: &Scope, session: &str) -> String {
        let own = self.own_sandbox(scope);
        match own.scope.unwrap_or(self.config.agents.defaults.sandbox.scope) {
            SandboxScope::Session => slug(session),
            SandboxScope::Agent => slug(&format!("agent:{}", scope.agent)),
            SandboxScope::Shared => "shared".to_owned(),
        }
    }

    /// How containers are made.
    pub fn sandbox_container(&self) -> &SandboxContainer {
        &self.config.agents.defaults.sandbox.container
    }

    /// How small machines are made.
    pub fn sandbox_microvm(&self) -> &SandboxMicrovm {
        &self.config.agents.defaults.sandbox.microvm
    }

    fn workspace_access(&self, scope: &Scope) -> WorkspaceAccess {
        let all = self.config.agents.defaults.sandbox.workspace_access;
        self.own_sandbox(scope).workspace_access.unwrap_or(all)
    }

    /// Whether an agent's programs and file tools may only look at its workspace.
    pub fn only_looks(&self, scope: &Scope, session: &str) -> bool {
        self.workspace_access(scope) == WorkspaceAccess::Ro && self.profile(scope, session) != Profile::None
    }

    fn own_sandbox(&self, scope: &Scope) -> AgentSandbox {
        self.agent(&scope.agent).map(|agent| agent.sandbox.clone()).unwrap_or_default()
    }
}

pub(super) fn profile_of(said: SandboxProfile) -> Profile {
    match said {
        SandboxProfile::None => Profile::None,
        SandboxProfile::Local => Profile::Local,
        SandboxProfile::Container => Profile::Container,
        SandboxProfile::Microvm => Profile::Microvm,
    }
}

pub(super) fn limits(said: &SandboxLimits) -> Limits {
    Limits {
        memory: u64::from(said.memory_mb) * MEGABYTE,
        processes: said.processes,
        disk: u64::from(said.disk_mb) * MEGABYTE,
    }
}

/// A name for a file, different for different texts.
pub(super) fn slug(text: &str) -> String {
    const SHOWN: usize = 32;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
    let shown: String = text.chars().map(plain).take(SHOWN).collect();
    let digest = Digest::of_text(text);
    let short: String = digest.as_str().chars().take(8).collect();
    format!("{}-{short}", shown.trim_matches('-'))
}
