//! From configuration to what a run is promised. Pure.

mod budgets;
mod choices;
mod confinement;
mod egress;
mod error;
#[cfg(test)]
mod having_tests;
mod images;
mod lanes;
mod mcp;
mod models;
mod resets;
mod services;
mod subagents;
#[cfg(test)]
pub(crate) mod tests;
mod tool_rules;
mod tool_sets;
mod tools;
#[cfg(test)]
mod tools_tests;
mod workplace;

use std::time::Duration;

use tidegate_config::Loaded;
use tidegate_config::schema::Config;
use tidegate_models::Catalogue;
use tidegate_net::NamedSecret;
use tidegate_protocol::{AgentId, Lane, Limits, ModelRef, RunSpec, Scope, ThinkingLevel, ToolUse};
use tidegate_runtime::Zone;
use tidegate_runtime::catalogue::Language;

pub(crate) use choices::USUAL_MODEL;
pub use confinement::{ConfinementKeys, keys_in};
pub use error::SettingsError;
pub(crate) use images::ImageModelError;
pub(crate) use services::Again;
pub use tools::{GroupTools, ToolContext};

/// The configuration in force.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    revision: String,
    /// Boxed: it is large, and settings travel by value.
    config: Box<Config>,
    catalogue: Catalogue,
    zone: Zone,
    /// What the configuration holds that must not leave.
    secrets: Vec<NamedSecret>,
    pipelines: tools::Pipelines,
}

/// What somebody asks for beyond the agent's own settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    pub provider: Option<&'a str>,
    /// `provider/model` or an alias.
    pub model: Option<&'a str>,
    /// The credential to use and no other.
    pub profile: Option<&'a str>,
    pub timeout: Option<Duration>,
    pub thinking: Option<ThinkingLevel>,
    /// Among which runs it waits for a place; by its conversation without it.
    pub lane: Option<Lane>,
}

impl Settings {
    pub fn new(loaded: &Loaded) -> Self {
        let config = loaded.config.clone();
        let catalogue = Catalogue::new(&config, std::path::Path::new(""));
        // A zone that the system does not know was refused when the file was read.
        let zone = config.budgets.timezone.as_deref().and_then(Zone::find).unwrap_or_default();
        let (revision, secrets) = (loaded.hash.clone(), loaded.secrets());
        Self {
            revision,
            config: Box::new(config),
            catalogue,
            zone,
            secrets,
            pipelines: tools::Pipelines::default(),
        }
    }

    pub fn language(&self) -> Language {
        match self.config.ui.language {
            Some(tidegate_config::schema::Language::SimplifiedChinese) => Language::Chinese,
            _ => Language::English,
        }
    }

    /// Providers and models as this installation has them.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The hash of the text these came from.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Which webhooks are taken.
    pub fn hooks(&self) -> &tidegate_config::schema::Hooks {
        &self.config.hooks
    }

    /// The folder of another page beside the gateway's own, as it is written.
    pub fn control_ui(&self) -> Option<&str> {
        self.config.gateway.control_ui.root.as_deref()
    }

    /// Where days begin and end.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Whether nothing but the built-in model answers.
    pub fn is_offline(&self) -> bool {
        self.scope(None)
            .and_then(|scope| self.chain(&scope.agent, &Wish::default()))
            .is_ok_and(|chain| chain.iter().all(|model| model.provider == tidegate_models::OFFLINE))
    }

    /// The agents by name, the default one first.
    pub fn agents(&self) -> Vec<&str> {
        let list = &self.config.agents.list;
        let default = self.default_agent();
        let others = list.iter().map(|agent| agent.id.as_str()).filter(|id| *id != default);
        std::iter::once(default).chain(others).collect()
    }

    fn default_agent(&self) -> &str {
        let list = &self.config.agents.list;
        list.iter().find(|agent| agent.default).or(list.first()).map_or("main", |agent| agent.id.as_str())
    }

    pub(crate) fn agent_defaults(&self) -> &tidegate_config::schema::AgentDefaults {
        &self.config.agents.defaults
    }

    /// The name people and models know an agent by.
    pub(crate) fn agent_name(&self, agent: &AgentId) -> String {
        let name = self.agent(agent).and_then(|agent| agent.name.clone());
        name.unwrap_or_else(|| agent.to_string())
    }

    /// The agent that is asked: the one named, the configured default, the first of the list, or `main`.
    pub fn scope(&self, named: Option<&str>) -> Result<Scope, SettingsError> {
        let known = self.agents();
        let chosen = named.unwrap_or(known[0]);
        let id: Option<AgentId> = chosen.parse().ok().filter(|_| known.contains(&chosen));
        id.map(Scope::personal)
            .ok_or_else(|| SettingsError::NoSuchAgent { name: chosen.to_owned(), known: known.join(", ") })
    }

    /// The agent whose data is read: any that may have been there, also one that is no longer configured.
    pub fn reading_scope(&self, named: Option<&str>) -> Result<Scope, SettingsError> {
        match named.map(str::parse::<AgentId>) {
            Some(Ok(agent)) => Ok(Scope::personal(agent)),
            _ => self.scope(named),
        }
    }

    /// What a run of this agent is promised now. Nothing that policy forbids is promised.
    pub fn run_spec(&self, scope: &Scope, wish: &Wish<'_>) -> Result<RunSpec, SettingsError> {
        let models = self.permitted(&scope.agent, self.chain(&scope.agent, wish)?)?;
        Ok(self.spec(scope, wish, models))
    }

    /// The same for somebody who asks. What policy forbids is accepted all the same and ends with its reason before
    /// anybody is called: so the refusal is among the runs and in the audit trail.
    pub fn asked_spec(&self, scope: &Scope, wish: &Wish<'_>) -> Result<RunSpec, SettingsError> {
        match self.run_spec(scope, wish) {
            Err(SettingsError::PolicyDenied { .. } | SettingsError::UnknownPrice { .. }) => {
                Ok(self.spec(scope, wish, self.chain(&scope.agent, wish)?))
            }
            spec => spec,
        }
    }

    /// The same for a message that came from a network. What stands against its models shows when it is run: whoever
    /// wrote gets an answer that says so, and not silence.
    pub fn inbound_spec(&self, scope: &Scope) -> Result<RunSpec, SettingsError> {
        let wish = Wish::default();
        Ok(self.spec(scope, &wish, self.chain(&scope.agent, &wish)?))
    }

    fn spec(&self, scope: &Scope, wish: &Wish<'_>, models: Vec<ModelRef>) -> RunSpec {
        let policies = self.model_policies(&scope.agent);
        let configured = Duration::from_secs(u64::from(self.config.agents.defaults.timeout_seconds));
        let thinking = wish.thinking.or_else(|| self.thinking(&scope.agent, models.first()?));
        let limits = Limits {
            max_cost: policies.max_cost_per_run(),
            max_tokens: self.max_tokens(scope),
            call_timeout_ms: policies.timeout().map(millis),
            ..Limits::new(
                millis(wish.timeout.unwrap_or(configured)),
                self.config.agents.defaults.history_turns.unwrap_or(u32::MAX),
            )
        };
        let profile = wish.profile.map(str::to_owned);
        let max_steps = Some(self.config.agents.defaults.max_tool_steps);
        RunSpec {
            profile,
            thinking,
            tools: ToolUse { max_steps, ..ToolUse::default() },
            lane: wish.lane,
            shadow: self.agent(&scope.agent).is_some_and(|agent| agent.shadow),
            ..RunSpec::new(self.revision.clone(), models, limits)
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
