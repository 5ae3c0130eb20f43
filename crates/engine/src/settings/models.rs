//! Which models answer for an agent, and which of them policy leaves.

use std::time::Duration;

use tidegate_config::schema::{self, Agent, AgentModel, ModelChain, Thinking};
use tidegate_models::{ModelInfo, parse_ref};
use tidegate_policy::{ModelPolicies, ModelPolicy, ModelVerdict};
use tidegate_protocol::{AgentId, Cost, ModelRef, RunSpec, ThinkingLevel};

use super::{Settings, SettingsError, Wish};

impl Settings {
    /// The models to try: what was asked for, else what the agent or the defaults name, else the offline one.
    pub(super) fn chain(&self, agent: &AgentId, wish: &Wish<'_>) -> Result<Vec<ModelRef>, SettingsError> {
        if let Some(text) = wish.model {
            let model = match wish.provider {
                Some(provider) if !text.contains('/') => {
                    self.catalogue.resolve(&format!("{provider}/{text}"))
                }
                _ => self.catalogue.resolve(text),
            };
            let model = model.ok_or_else(|| self.names_nothing(text))?;
            return self.listed(model).map(|model| vec![model]);
        }
        if let Some(provider) = wish.provider {
            return self.listed(self.first_of(agent, provider)?).map(|model| vec![model]);
        }
        Ok(self.configured_chain(agent))
    }

    /// Why a text names no model.
    pub(crate) fn names_nothing(&self, text: &str) -> SettingsError {
        let named = parse_ref(text, "").filter(|_| text.contains('/'));
        match named.filter(|model| self.catalogue.provider(&model.provider).is_none()) {
            Some(model) => {
                SettingsError::UnknownProvider { provider: model.provider, known: self.providers() }
            }
            None => SettingsError::UnknownModel { text: text.to_owned() },
        }
    }

    fn providers(&self) -> String {
        self.catalogue.providers().map(|provider| provider.id.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// A model that somebody chooses must be one of those the configuration lists, if it lists any. The offline one
    /// costs nothing and tells nobody anything, so it can always be chosen.
    fn listed(&self, model: ModelRef) -> Result<ModelRef, SettingsError> {
        let mut list = self.list().peekable();
        let free = model.provider == tidegate_models::OFFLINE || list.peek().is_none();
        if free || list.any(|listed| listed == model) || self.all_configured().contains(&model) {
            return Ok(model);
        }
        Err(SettingsError::NotListed { model })
    }

    /// The models that the configuration lists.
    fn list(&self) -> impl Iterator<Item = ModelRef> {
        let names = self.config.agents.defaults.models.keys();
        names.filter_map(|name| parse_ref(name, tidegate_models::OFFLINE))
    }

    /// The model of a provider that is named without one: the one the agent uses there, else the first that is listed,
    /// else the provider's first.
    fn first_of(&self, agent: &AgentId, provider: &str) -> Result<ModelRef, SettingsError> {
        let Some(info) = self.catalogue.provider(provider) else {
            let (provider, known) = (provider.to_owned(), self.providers());
            return Err(SettingsError::UnknownProvider { provider, known });
        };
        let configured = self.configured_chain(agent).into_iter().find(|model| model.provider == info.id);
        let listed = || self.list().find(|model| model.provider == info.id);
        let model = configured.or_else(listed).or_else(|| self.catalogue.first_model(&info.id));
        model.ok_or_else(|| SettingsError::UnknownModel { text: info.id.clone() })
    }

    fn configured_chain(&self, agent: &AgentId) -> Vec<ModelRef> {
        let defaults = &self.config.agents.defaults;
        let own = self.agent(agent).and_then(|agent| agent.model.as_ref());
        let (primary, fallbacks) = match own {
            Some(AgentModel::One(name)) => (Some(name), &defaults.model.fallbacks),
            Some(AgentModel::Chain(ModelChain { primary: Some(primary), fallbacks })) => {
                (Some(primary), fallbacks)
            }
            Some(AgentModel::Chain(ModelChain { primary: None, fallbacks })) if !fallbacks.is_empty() => {
                (defaults.model.primary.as_ref(), fallbacks)
            }
            _ => (defaults.model.primary.as_ref(), &defaults.model.fallbacks),
        };
        let policies = [&self.config.models.policy, &defaults.model_policy];
        let policies = policies.into_iter().chain(self.agent(agent).map(|agent| &agent.model_policy));
        let more = policies.flat_map(|policy| &policy.fallback);
        let mut chain: Vec<ModelRef> = Vec::new();
        for model in
            primary.into_iter().chain(fallbacks).chain(more).filter_map(|name| self.catalogue.resolve(name))
        {
            if !chain.contains(&model) {
                chain.push(model);
            }
        }
        if chain.is_empty() {
            chain.push(tidegate_models::default_model());
        }
        chain
    }

    /// The models that may be chosen: those that are listed, else whatever a configured provider is known to have.
    pub(super) fn offered(&self) -> Vec<ModelRef> {
        let mut offered: Vec<ModelRef> = self.list().collect();
        if offered.is_empty() {
            let providers = self.catalogue.providers().filter(|provider| provider.configured);
            offered.extend(providers.flat_map(|provider| provider.models.iter().map(ModelInfo::reference)));
        }
        offered.extend(self.all_configured());
        offered
    }

    fn all_configured(&self) -> Vec<ModelRef> {
        let agents = self.agents();
        let ids = agents.iter().filter_map(|agent| agent.parse().ok());
        ids.flat_map(|agent: AgentId| self.configured_chain(&agent)).collect()
    }

    pub(super) fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.config.agents.list.iter().find(|agent| agent.id == id.as_str())
    }

    /// What policy leaves of a chain. The first model must be allowed: it is never silently replaced by another.
    pub fn permitted(&self, agent: &AgentId, chain: Vec<ModelRef>) -> Result<Vec<ModelRef>, SettingsError> {
        let policies = self.model_policies(agent);
        let hard_money = self.has_hard_money(agent);
        let mut left = Vec::new();
        for (at, model) in chain.into_iter().enumerate() {
            let objection = match policies.judge(&model) {
                ModelVerdict::Denied { stage, rule } => Some(SettingsError::PolicyDenied { stage, rule }),
                ModelVerdict::Allowed if hard_money && !self.is_priced(&model) => {
                    Some(SettingsError::UnknownPrice { model: model.clone() })
                }
                ModelVerdict::Allowed => None,
            };
            match objection {
                None => left.push(model),
                Some(error) if at == 0 => return Err(error),
                Some(error) => tracing::warn!(%model, %error, "a fallback is left out"),
            }
        }
        Ok(left)
    }

    /// Whether anybody knows what the model costs.
    pub(crate) fn is_priced(&self, model: &ModelRef) -> bool {
        self.catalogue.model(model).is_some_and(|info| info.price.is_some())
    }

    /// What a run was promised, as far as policy still allows it: an earlier promise never widens today's limits.
    pub(crate) fn narrowed(&self, agent: &AgentId, spec: &RunSpec) -> Result<RunSpec, SettingsError> {
        let mut spec = RunSpec { models: self.permitted(agent, spec.models.clone())?, ..spec.clone() };
        let policies = self.model_policies(agent);
        let limits = &mut spec.limits;
        limits.max_cost = smaller(limits.max_cost, policies.max_cost_per_run());
        limits.call_timeout_ms = smaller(limits.call_timeout_ms, policies.timeout().map(super::millis));
        spec.shadow |= self.is_shadow(agent);
        Ok(spec)
    }

    /// Whether an agent only shows what it would do.
    pub(crate) fn is_shadow(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| agent.shadow)
    }

    /// The rules for an agent's models, the widest first.
    pub fn model_policies(&self, agent: &AgentId) -> ModelPolicies {
        let mut stages = vec![
            ("models.policy".to_owned(), policy(&self.config.models.policy)),
            ("agents.defaults.modelPolicy".to_owned(), policy(&self.config.agents.defaults.model_policy)),
        ];
        let own = self.agent(agent).map(|own| (format!("agent {agent}"), policy(&own.model_policy)));
        stages.extend(own);
        ModelPolicies(stages)
    }

    /// How much the model thinks when nobody says: a little, if it can.
    pub(super) fn thinking(&self, agent: &AgentId, model: &ModelRef) -> Option<ThinkingLevel> {
        let own = self.agent(agent).and_then(|agent| agent.thinking_default);
        let configured = own.or(self.config.agents.defaults.thinking_default).map(level);
        configured.or_else(|| {
            let reasons = self.catalogue.model(model).is_some_and(|info| info.reasoning);
            reasons.then_some(ThinkingLevel::Low)
        })
    }

    /// The order of an agent's credentials for each provider it names.
    pub fn credential_order(&self, agent: &AgentId, provider: &str) -> Option<Vec<String>> {
        let own = self.agent(agent).and_then(|agent| agent.auth.order.get(provider));
        own.or_else(|| self.config.auth.order.get(provider)).cloned()
    }
}

/// The smaller of two limits that may be absent.
fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

fn policy(said: &schema::ModelPolicy) -> ModelPolicy {
    ModelPolicy {
        allowed_providers: said.allowed_providers.clone(),
        allowed_models: said.allowed_models.clone(),
        denied_models: said.denied_models.clone(),
        max_cost_per_run: said.max_cost_per_run_usd.map(Cost::from_usd),
        timeout: said.timeout_ms.map(|ms| Duration::from_millis(u64::from(ms))),
    }
}

pub(super) fn level(said: Thinking) -> ThinkingLevel {
    match said {
        Thinking::Off => ThinkingLevel::Off,
        Thinking::Minimal => ThinkingLevel::Minimal,
        Thinking::Low => ThinkingLevel::Low,
        Thinking::Medium => ThinkingLevel::Medium,
        Thinking::High => ThinkingLevel::High,
        Thinking::Xhigh => ThinkingLevel::Xhigh,
    }
}
