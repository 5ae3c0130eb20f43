//! From configuration to what a run is promised. Pure.

use std::time::Duration;

use tidegate_config::Loaded;
use tidegate_config::schema::{Agent, AgentModel, Config, ModelApi};
use tidegate_protocol::{AgentId, ErrorBody, ErrorCode, Limits, ModelRef, RunSpec, Scope};
use tidegate_runtime::catalogue::Language;

/// Messages of history the `ask` contract shows a model.
const HISTORY: u32 = 12;

/// The configuration in force.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    revision: String,
    config: Config,
}

/// Why a request does not fit the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("there is no agent {name:?}; known: {known}")]
    NoSuchAgent { name: String, known: String },
    #[error("the model provider {provider:?} is neither built in nor configured; known: {known}")]
    UnknownProvider { provider: String, known: String },
    #[error("there is no credential for the model provider {provider:?}")]
    NoCredential { provider: String },
    #[error("this version cannot speak to the model provider {provider:?} yet")]
    CannotSpeak { provider: String },
}

impl SettingsError {
    pub fn body(&self) -> ErrorBody {
        let code = match self {
            Self::NoSuchAgent { .. } => ErrorCode::NotFound,
            Self::UnknownProvider { .. } => ErrorCode::UnsupportedProvider,
            Self::NoCredential { .. } => ErrorCode::AuthRequired,
            Self::CannotSpeak { .. } => ErrorCode::ModelUnavailable,
        };
        ErrorBody::new(code, self.to_string())
    }
}

impl Settings {
    pub fn new(loaded: &Loaded) -> Self {
        Self { revision: loaded.hash.clone(), config: loaded.config.clone() }
    }

    pub fn language(&self) -> Language {
        match self.config.ui.language {
            Some(tidegate_config::schema::Language::SimplifiedChinese) => Language::Chinese,
            _ => Language::English,
        }
    }

    /// Whether nothing but the built-in model answers.
    pub fn is_offline(&self) -> bool {
        self.scope(None)
            .and_then(|scope| self.model(&scope.agent, None))
            .is_ok_and(|model| model.provider == tidegate_models::OFFLINE)
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

    /// What a run of this agent is promised now.
    pub fn run_spec(
        &self,
        scope: &Scope,
        provider: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<RunSpec, SettingsError> {
        let model = self.model(&scope.agent, provider)?;
        if model.provider != tidegate_models::OFFLINE {
            // Before anything is accepted: a configured model is never silently replaced by the offline one.
            return Err(SettingsError::CannotSpeak { provider: model.provider });
        }
        Ok(self.spec(model, timeout))
    }

    /// The same for a message that came from a network. Whether its model can be used shows when it is run: whoever
    /// wrote gets an answer that says so, and not silence.
    pub fn inbound_spec(&self, scope: &Scope) -> Result<RunSpec, SettingsError> {
        Ok(self.spec(self.model(&scope.agent, None)?, None))
    }

    fn spec(&self, model: ModelRef, timeout: Option<Duration>) -> RunSpec {
        let configured = Duration::from_secs(u64::from(self.config.agents.defaults.timeout_seconds));
        let deadline = timeout.unwrap_or(configured);
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        RunSpec::new(self.revision.clone(), vec![model], Limits::new(deadline_ms, HISTORY))
    }

    /// The model that answers: the provider named, else what the agent or the defaults name, else the offline one.
    fn model(&self, agent: &AgentId, provider: Option<&str>) -> Result<ModelRef, SettingsError> {
        let Some(provider) = provider else { return Ok(self.configured_model(agent)) };
        if provider == tidegate_models::OFFLINE {
            return Ok(tidegate_models::default_model());
        }
        let providers = &self.config.models.providers;
        if let Some(known) = providers.get(provider) {
            if known.api == Some(ModelApi::Offline) {
                return Ok(tidegate_models::default_model());
            }
            let model = known.models.first().map_or_else(String::new, |model| model.id.clone());
            return Ok(ModelRef { provider: provider.to_owned(), model });
        }
        const KNOWN: [&str; 2] = [tidegate_models::OFFLINE, "openai-codex"];
        if KNOWN.contains(&provider) {
            return Err(SettingsError::NoCredential { provider: provider.to_owned() });
        }
        let mut known: Vec<&str> = KNOWN.to_vec();
        known.extend(providers.keys().map(String::as_str));
        Err(SettingsError::UnknownProvider { provider: provider.to_owned(), known: known.join(", ") })
    }

    fn configured_model(&self, agent: &AgentId) -> ModelRef {
        let agents = &self.config.agents;
        let own = agents.list.iter().find(|entry| entry.id == agent.as_str()).and_then(primary);
        let Some(name) = own.or(agents.defaults.model.primary.as_deref()) else {
            return tidegate_models::default_model();
        };
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let providers = &self.config.models.providers;
        let offline = providers.get(provider).is_some_and(|known| known.api == Some(ModelApi::Offline));
        if offline || provider == tidegate_models::OFFLINE {
            return tidegate_models::default_model();
        }
        ModelRef { provider: provider.to_owned(), model: model.to_owned() }
    }
}

fn primary(agent: &Agent) -> Option<&str> {
    match agent.model.as_ref()? {
        AgentModel::One(name) => Some(name),
        AgentModel::Chain(chain) => chain.primary.as_deref(),
    }
}
