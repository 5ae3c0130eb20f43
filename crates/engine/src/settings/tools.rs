//! From configuration to the stages of the tool policy, and to what else holds for tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_config::schema::{
    ExecAsk, ExecFallback, ExecHost, ExecSecurity, ProviderTools, SelfApproval, ToolLists, ToolMode,
    ToolProfile,
};
use tidegate_policy::exec::{Ask, AskFallback, ExecPolicy, Security};
use tidegate_policy::tools::{
    AlsoAllow, Base, Pipeline, Profile, Stage, StageKind, ToolPolicy, Trust, Verdict, fits,
};
use tidegate_protocol::{AgentId, Scope};
use tidegate_storage::OwnCalls;

use super::tool_rules::rules;
use super::{Settings, SettingsError};

/// Tools that change files.
const WRITING: [&str; 4] = ["apply_patch", "edit", "memory_append", "write"];

/// In which situation an agent wants to use tools.
#[derive(Debug, Clone, Default)]
pub struct ToolContext<'a> {
    /// Who answers: the provider and its model.
    pub provider: Option<&'a str>,
    pub model: Option<&'a str>,
    /// What the conversation's group says about the sender.
    pub group: Option<GroupTools>,
    /// Another agent started it.
    pub subagent: bool,
    /// Tools that join the agent's profile for this one purpose, and get past no other list.
    pub also: &'a [String],
    /// Only these, because somebody asked for no more.
    pub wanted: Option<&'a [String]>,
    /// The sandbox holds what it starts.
    pub confined: bool,
    /// What works there may look at its folder and change nothing.
    pub only_looks: bool,
    /// Absolute paths that no command may name: our own state.
    pub forbidden: &'a [String],
    /// Folders inside those that commands may name all the same: the workspace.
    pub roots: &'a [String],
    /// Tools that a provider has just now, by name.
    pub provided: &'a [String],
}

/// Pipelines that were read before. Nearly every turn wants one of a few, and reading one costs more than looking.
#[derive(Debug, Clone, Default)]
pub(super) struct Pipelines {
    /// The one that was wanted last comes last.
    recent: Arc<Mutex<Vec<Known>>>,
}

type Known = (ToolPolicy, Arc<Pipeline>);

impl Pipelines {
    const MOST: usize = 16;

    fn of(&self, policy: ToolPolicy) -> Result<Arc<Pipeline>, SettingsError> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = recent.iter().rposition(|(known, _)| *known == policy) {
            let known = recent.remove(at);
            let pipeline = Arc::clone(&known.1);
            recent.push(known);
            return Ok(pipeline);
        }
        let pipeline = Arc::new(Pipeline::new(&policy)?);
        if recent.len() == Self::MOST {
            recent.remove(0);
        }
        recent.push((policy, Arc::clone(&pipeline)));
        Ok(pipeline)
    }
}

/// The lists of a group, chosen for one sender.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTools {
    /// Where they are configured.
    pub source: String,
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

impl Settings {
    /// The stages in force for an agent in a situation. Fails when a rule does not do what its examples say.
    pub fn pipeline(&self, scope: &Scope, context: &ToolContext<'_>) -> Result<Arc<Pipeline>, SettingsError> {
        let agent = &scope.agent;
        let policy = ToolPolicy {
            base: self.tool_base(agent, context),
            stages: self.tool_stages(agent, context),
            exec: self.exec_policy(agent, context),
            high_risk: verdict(self.config.tools.high_risk),
            plugins: self.plugins(context),
        };
        self.pipelines.of(policy)
    }

    /// Tools that are not part of the program.
    fn plugins(&self, context: &ToolContext<'_>) -> Vec<String> {
        let custom = self.config.tools.custom.keys().map(|name| custom_name(name));
        custom.chain(context.provided.iter().cloned()).collect()
    }

    /// Whether every agent's rules can be used. For whoever takes a configuration into force.
    pub fn check_tools(&self) -> Result<(), SettingsError> {
        for agent in self.agents() {
            self.pipeline(&self.scope(Some(agent))?, &ToolContext::default())?;
        }
        Ok(())
    }

    fn tool_stages(&self, agent: &AgentId, context: &ToolContext<'_>) -> Vec<Stage> {
        let all = &self.config.tools;
        let own = self.agent(agent).map(|own| &own.tools);
        let at = format!("agents.list[{agent}].tools");
        let mut stages = provider_stages("tools", &all.by_provider, context);
        stages.push(Stage {
            allow: all.allow.clone(),
            deny: all.deny.clone(),
            modes: modes(&all.modes),
            rules: rules(&all.rules),
            ..Stage::new(StageKind::Global, "tools")
        });
        stages.extend(self.mcp_stages());
        if let Some(own) = own {
            stages.extend(provider_stages(&at, &own.by_provider, context));
            stages.push(Stage {
                allow: own.allow.clone(),
                deny: own.deny.clone(),
                modes: modes(&own.modes),
                rules: rules(&own.rules),
                ..Stage::new(StageKind::Agent, at.as_str())
            });
        }
        stages.extend(context.group.iter().map(|group| Stage {
            allow: group.allow.clone(),
            deny: group.deny.clone(),
            ..Stage::new(StageKind::Group, group.source.as_str())
        }));
        if context.confined {
            stages.push(lists(StageKind::Sandbox, "tools.sandbox.tools", &all.sandbox.tools));
            stages.extend(
                own.map(|own| lists(StageKind::Sandbox, &format!("{at}.sandbox.tools"), &own.sandbox.tools)),
            );
        }
        if context.only_looks {
            stages.push(Stage {
                deny: WRITING.map(str::to_owned).to_vec(),
                ..Stage::new(StageKind::Sandbox, "agents.defaults.sandbox.workspaceAccess")
            });
        }
        if context.subagent {
            stages.push(self.subagent_stage());
            stages.push(lists(StageKind::Subagent, "tools.subagents.tools", &all.subagents.tools));
            stages.extend(own.map(|own| {
                lists(StageKind::Subagent, &format!("{at}.subagents.tools"), &own.subagents.tools)
            }));
        }
        stages.extend(context.wanted.filter(|wanted| !wanted.is_empty()).map(|wanted| Stage {
            allow: Some(wanted.to_vec()),
            ..Stage::new(StageKind::Run, "the tools that were asked for")
        }));
        stages
    }

    /// Where an agent begins. Its own profile comes with its own additions only: those of `tools.alsoAllow` were made
    /// with another profile in mind.
    fn tool_base(&self, agent: &AgentId, context: &ToolContext<'_>) -> Base {
        let all = &self.config.tools;
        let own = self.agent(agent).map(|own| &own.tools);
        let at = format!("agents.list[{agent}].tools");
        let also = |at: &str, tools: &[String]| AlsoAllow {
            source: format!("{at}.alsoAllow"),
            tools: tools.to_vec(),
        };
        let own_profile = own.and_then(|own| own.profile);
        let mut also_allow = Vec::new();
        if own_profile.is_none() {
            also_allow.push(also("tools", &all.also_allow));
        }
        also_allow.extend(own.map(|own| also(&at, &own.also_allow)));
        also_allow.extend(self.mcp_additions());
        also_allow.push(AlsoAllow { source: "the memory flush".to_owned(), tools: context.also.to_vec() });
        Base {
            profile: profile(own_profile.unwrap_or(all.profile)),
            source: format!("{}.profile", if own_profile.is_some() { &at } else { "tools" }),
            also_allow,
        }
    }

    fn exec_policy(&self, agent: &AgentId, context: &ToolContext<'_>) -> ExecPolicy {
        let all = &self.config.tools.exec;
        let own = self.agent(agent).map(|own| &own.tools.exec);
        let own_security = own.and_then(|own| own.security).map(security);
        let own_ask = own.and_then(|own| own.ask).map(ask);
        ExecPolicy {
            security: own_security.into_iter().fold(security(all.security), Ord::min),
            ask: own_ask.into_iter().fold(ask(all.ask), Ord::max),
            fallback: match all.ask_fallback {
                ExecFallback::Deny => AskFallback::Deny,
                ExecFallback::Allowlist => AskFallback::Allowlist,
            },
            confined: context.confined,
            unconfined_by_name: all.host == ExecHost::Gateway,
            safe_bins: all.safe_bins.clone(),
            forbidden: context.forbidden.to_vec(),
            roots: context.roots.to_vec(),
        }
    }

    /// How far a session is trusted, by its key as text.
    pub fn trust(&self, scope: &Scope, session: &str) -> Trust {
        let sensitive = self.agent(&scope.agent).is_some_and(|agent| agent.sensitive)
            || self.config.tools.sensitive_sessions.iter().any(|glob| fits(glob, session));
        if sensitive { Trust::Sensitive } else { Trust::Normal }
    }

    /// How long a question waits for its answer.
    pub fn approval_expiry(&self) -> Duration {
        Duration::from_secs(self.config.approvals.expiry_seconds.into())
    }

    /// Whether people may approve what they asked for themselves.
    pub fn own_calls(&self) -> OwnCalls {
        match self.config.approvals.self_approval {
            SelfApproval::Allow => OwnCalls::MayApprove,
            SelfApproval::Deny => OwnCalls::MayNotApprove,
        }
    }
}

/// What a custom tool is called: where it is configured.
pub(super) fn custom_name(name: &str) -> String {
    format!("tools.custom.{name}")
}

/// The lists for whoever answers: those of the provider and those of the model. Both count, since neither may widen what
/// the other leaves.
fn provider_stages(
    at: &str,
    by_provider: &BTreeMap<String, ProviderTools>,
    context: &ToolContext<'_>,
) -> Vec<Stage> {
    let Some(provider) = context.provider else { return Vec::new() };
    let model = context.model.map(|model| format!("{provider}/{model}"));
    let meant = by_provider.iter().filter(|(name, _)| *name == provider || Some(*name) == model.as_ref());
    meant
        .map(|(name, tools)| Stage {
            profile: tools.profile.map(profile),
            allow: tools.allow.clone(),
            deny: tools.deny.clone(),
            ..Stage::new(StageKind::Provider, format!("{at}.byProvider.{name}"))
        })
        .collect()
}

fn lists(kind: StageKind, at: &str, said: &ToolLists) -> Stage {
    Stage { allow: said.allow.clone(), deny: said.deny.clone(), ..Stage::new(kind, at) }
}

fn modes(said: &BTreeMap<String, ToolMode>) -> BTreeMap<String, Verdict> {
    said.iter().map(|(tool, mode)| (tool.clone(), verdict(*mode))).collect()
}

pub(super) fn verdict(mode: ToolMode) -> Verdict {
    match mode {
        ToolMode::Allow => Verdict::Allow,
        ToolMode::ApprovalRequired => Verdict::Ask,
        ToolMode::Deny => Verdict::Deny,
    }
}

fn profile(said: ToolProfile) -> Profile {
    match said {
        ToolProfile::Minimal => Profile::Minimal,
        ToolProfile::Safe => Profile::Safe,
        ToolProfile::Coding => Profile::Coding,
        ToolProfile::Messaging => Profile::Messaging,
        ToolProfile::Full => Profile::Full,
    }
}

fn security(said: ExecSecurity) -> Security {
    match said {
        ExecSecurity::Deny => Security::Deny,
        ExecSecurity::Allowlist => Security::Allowlist,
        ExecSecurity::Full => Security::Full,
    }
}

fn ask(said: ExecAsk) -> Ask {
    match said {
        ExecAsk::Off => Ask::Off,
        ExecAsk::OnMiss => Ask::OnMiss,
        ExecAsk::Always => Ask::Always,
    }
}
