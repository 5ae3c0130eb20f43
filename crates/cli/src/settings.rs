//! From configuration and command line to what the engine takes.

use std::time::Duration;

use tidegate_config::Loaded;
use tidegate_config::schema::{Agent, AgentModel, Config, ModelApi};
use tidegate_protocol::{AgentId, ErrorCode, Limits, ModelRef, RunSpec, Scope};

use crate::failure::{Failure, With as _};
use crate::texts;

/// Messages of history the `ask` contract shows a model.
const HISTORY: u32 = 12;

/// The agent that is asked: the one named, the configured default, the first of the list, or `main`.
pub(crate) fn scope(config: &Config, named: Option<&str>) -> Result<Scope, Failure> {
    let list = &config.agents.list;
    let chosen = match named {
        Some(name) => name,
        None => {
            list.iter().find(|agent| agent.default).or(list.first()).map_or("main", |agent| agent.id.as_str())
        }
    };
    let known = list.is_empty() && chosen == "main" || list.iter().any(|agent| agent.id == chosen);
    let id: Option<AgentId> = chosen.parse().ok().filter(|_| known);
    let id = id.ok_or_else(|| {
        let mut names: Vec<&str> = list.iter().map(|agent| agent.id.as_str()).collect();
        if names.is_empty() {
            names.push("main");
        }
        let names = names.join(", ");
        Failure::new(ErrorCode::NotFound, texts::NO_SUCH_AGENT.with(&[("name", &chosen), ("known", &names)]))
    })?;
    Ok(Scope::personal(id))
}

/// The agent whose data is read: any that may have been there, also one that is no longer configured.
pub(crate) fn reading_scope(config: &Config, named: Option<&str>) -> Result<Scope, Failure> {
    match named.map(str::parse::<AgentId>) {
        Some(Ok(agent)) => Ok(Scope::personal(agent)),
        _ => scope(config, named),
    }
}

/// The model that answers: the provider named, else what the agent or the defaults name, else the offline one.
pub(crate) fn model(config: &Config, agent: &AgentId, provider: Option<&str>) -> Result<ModelRef, Failure> {
    let Some(provider) = provider else { return configured_model(config, agent) };
    if provider == tidegate_models::OFFLINE {
        return Ok(tidegate_models::default_model());
    }
    if let Some(known) = config.models.providers.get(provider) {
        if known.api == ModelApi::Offline {
            return Ok(tidegate_models::default_model());
        }
        let model = known.models.first().map_or_else(String::new, |model| model.id.clone());
        return speak(ModelRef { provider: provider.to_owned(), model });
    }
    if tidegate_models::KNOWN_PROVIDERS.contains(&provider) {
        let failure =
            Failure::new(ErrorCode::AuthRequired, texts::NO_PROFILE.with(&[("provider", &provider)]));
        return Err(failure.with_hint(texts::NO_AUTH_YET.with(&[])));
    }
    let mut known: Vec<&str> = tidegate_models::KNOWN_PROVIDERS.to_vec();
    known.extend(config.models.providers.keys().map(String::as_str));
    let failure = Failure::new(
        ErrorCode::UnsupportedProvider,
        texts::UNSUPPORTED_PROVIDER.with(&[("provider", &provider)]),
    );
    Err(failure.with_hint(texts::KNOWN_PROVIDERS.with(&[("known", &known.join(", "))])))
}

fn configured_model(config: &Config, agent: &AgentId) -> Result<ModelRef, Failure> {
    let own = config.agents.list.iter().find(|entry| entry.id == agent.as_str()).and_then(primary);
    let Some(name) = own.or(config.agents.defaults.model.primary.as_deref()) else {
        return Ok(tidegate_models::default_model());
    };
    let (provider, model) = name.split_once('/').unwrap_or((name, ""));
    let offline = config.models.providers.get(provider).is_some_and(|known| known.api == ModelApi::Offline);
    if offline || provider == tidegate_models::OFFLINE {
        return Ok(tidegate_models::default_model());
    }
    speak(ModelRef { provider: provider.to_owned(), model: model.to_owned() })
}

fn primary(agent: &Agent) -> Option<&str> {
    match agent.model.as_ref()? {
        AgentModel::One(name) => Some(name),
        AgentModel::Chain(chain) => chain.primary.as_deref(),
    }
}

/// Refuses before anything is accepted: a configured model is never silently replaced by the offline one.
fn speak(model: ModelRef) -> Result<ModelRef, Failure> {
    match tidegate_models::open(&model) {
        Ok(_) => Ok(model),
        Err(error) => Err(Failure::new(
            ErrorCode::ModelUnavailable,
            texts::CANNOT_SPEAK.with(&[("provider", &error.provider)]),
        )
        .with_hint(texts::USE_OFFLINE.with(&[]))),
    }
}

pub(crate) fn run_spec(loaded: &Loaded, model: ModelRef, timeout: Option<Duration>) -> RunSpec {
    let configured = Duration::from_secs(u64::from(loaded.config.agents.defaults.timeout_seconds));
    let deadline = timeout.unwrap_or(configured);
    RunSpec {
        config_revision: loaded.hash.clone(),
        models: vec![model],
        limits: Limits {
            deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
            history: HISTORY,
        },
    }
}
