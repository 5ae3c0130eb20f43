//! All models of this installation, ready to be asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_config::schema::Config;
use tidegate_net::{Client, Timeouts};
use tidegate_protocol::{AgentId, ModelRef, RunSpec};
use tidegate_runtime::Clock;
use tidegate_secrets::{CredentialStore, ProfileId, SecretsError, StoreOptions};

use crate::catalogue::{Api, Catalogue, ProviderInfo};
use crate::chain::{Chain, Link, Shared, Via};
use crate::cooldown::{Cooldowns, Standing};
use crate::embed::{EmbedRequest, Embedded, Purpose};
use crate::failure::{Failure, FailureKind};
use crate::keyring::{Environment, Keyring};
use crate::ledger::Ledger;
use crate::login::LoginSettings;
use crate::offline::Offline;
use crate::rotation::{self, Candidate, Wishes};
use crate::scripted::Scripted;
use crate::standings::{StandingStore, Standings};
use crate::stream::Model;
use crate::{CannotSpeak, Providers, wire};

/// The pause before the first repetition of a call.
const PAUSE: Duration = Duration::from_millis(500);

/// What a registry is made of.
pub struct RegistryOptions {
    /// The home: relative files of the configuration begin here.
    pub home: PathBuf,
    /// Where credentials rest.
    pub credentials: PathBuf,
    pub store: StoreOptions,
    pub environment: Environment,
    pub standings: Arc<dyn StandingStore>,
    pub clock: Arc<dyn Clock>,
}

/// Every provider, with its credentials. Clones share what was learned.
#[derive(Clone)]
pub struct Registry {
    catalogue: Arc<Catalogue>,
    keyring: Arc<Keyring>,
    shared: Arc<Shared>,
    /// The order of credentials by provider, and by agent and provider.
    order: Arc<Order>,
}

#[derive(Default)]
struct Order {
    everywhere: BTreeMap<String, Vec<String>>,
    of_agent: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Registry {
    pub fn new(config: &Config, options: RegistryOptions) -> Self {
        let RegistryOptions { home, credentials, store, environment, standings, clock } = options;
        let catalogue = Arc::new(Catalogue::new(config, &home));
        let client = Client::new(Duration::from_secs(u64::from(config.models.connect_timeout_seconds)));
        let keyring = Arc::new(Keyring {
            catalogue: Arc::clone(&catalogue),
            folder: credentials,
            options: store,
            store: OnceLock::new(),
            environment: Environment::clone(&environment),
            listed: config.auth.profiles.clone(),
            clock: Arc::clone(&clock),
            client: client.clone(),
            logins: LoginSettings::new(&config.auth),
            refresher: OnceLock::new(),
            lent: Mutex::default(),
        });
        let shared = Arc::new(Shared {
            client,
            credentials: Arc::clone(&keyring),
            standings: Standings::new(standings, cooldowns(config)),
            clock,
            timeouts: Timeouts { idle: Duration::from_secs(u64::from(config.models.idle_timeout_seconds)) },
            retries: config.models.retries,
            pause: PAUSE,
        });
        let of_agent = config.agents.list.iter().map(|agent| (agent.id.clone(), ids(&agent.auth.order)));
        let order = Order { everywhere: ids(&config.auth.order), of_agent: of_agent.collect() };
        Self { catalogue, keyring, shared, order: Arc::new(order) }
    }

    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub fn credentials(&self) -> Result<&Arc<CredentialStore>, SecretsError> {
        self.keyring.store()
    }

    /// What there is for a provider, wherever it is kept.
    pub fn candidates(&self, provider: &str) -> Result<Vec<Candidate>, SecretsError> {
        match self.catalogue.provider(provider) {
            Some(provider) => self.keyring.found(provider),
            None => Ok(Vec::new()),
        }
    }

    /// The credentials for a model in the order in which they would be tried now, and how each stands.
    pub async fn in_order(
        &self,
        agent: &AgentId,
        model: &ModelRef,
    ) -> Result<Vec<(Candidate, Standing)>, SecretsError> {
        let candidates = self.candidates(&model.provider)?;
        self.shared.standings.load().await;
        let order = self.order_of(agent, &model.provider);
        let wishes = Wishes { order: order.as_deref(), ..Wishes::default() };
        let standing =
            |candidate: &Candidate| self.shared.standings.of(&model.provider, candidate, &model.model);
        let ordered = rotation::order(&candidates, wishes, standing, self.shared.clock.now_ms());
        Ok(ordered.into_iter().map(|candidate| (candidate.clone(), standing(candidate))).collect())
    }

    /// The provider of a model that can be addressed.
    fn addressed(&self, model: &ModelRef) -> Result<&ProviderInfo, CannotSpeak> {
        let unusable =
            |reason: &str| CannotSpeak::Unusable { model: model.clone(), reason: reason.to_owned() };
        let provider =
            self.catalogue.provider(&model.provider).ok_or_else(|| unusable("its provider is not known"))?;
        if matches!(provider.api, Api::Offline | Api::Scripted) {
            return Ok(provider);
        }
        if provider.base_url.is_empty() && provider.api != Api::BedrockConverseStream {
            return Err(unusable("its provider has no address; set models.providers.<name>.baseUrl"));
        }
        if model.model.is_empty() {
            return Err(unusable("the model has no name"));
        }
        Ok(provider)
    }

    async fn check(&self, model: &ModelRef, profile: Option<&str>) -> Result<(), CannotSpeak> {
        let provider = self.addressed(model)?;
        if matches!(provider.api, Api::Offline | Api::Scripted) {
            return Ok(());
        }
        let found = self.keyring.candidates(&provider.id).await;
        let found = found.map_err(|failure| CannotSpeak::Unreadable(failure.message))?;
        match profile.map(canonical) {
            None if found.is_empty() => Err(CannotSpeak::NoCredential { provider: provider.id.clone() }),
            Some(profile) if !found.iter().any(|candidate| candidate.profile_id == profile) => {
                Err(CannotSpeak::NoSuchProfile { provider: provider.id.clone(), profile })
            }
            _ => Ok(()),
        }
    }

    fn link(&self, agent: &AgentId, model: &ModelRef, ledger: &Arc<Ledger>) -> Option<Link> {
        let provider = self.addressed(model).ok()?;
        let info = provider.model(&model.model);
        let via = match (provider.api, &provider.script) {
            (Api::Offline, _) => Via::BuiltIn(Arc::new(Offline::new(ledger))),
            (Api::Scripted, file) => Via::BuiltIn(self.scripted(model, file.as_deref()?, ledger)),
            _ => Via::Wire(wire::for_model(&info)?),
        };
        let order = self.order_of(agent, &info.provider);
        Some(Link { via, model: Arc::new(info), order })
    }

    /// Turns texts into vectors, with the same credentials, standings and ledger as everything else.
    pub async fn embed(
        &self,
        agent: &AgentId,
        model: &ModelRef,
        inputs: &[String],
        purpose: Purpose,
        ledger: &Ledger,
    ) -> Result<Embedded, Failure> {
        let unknown = || Failure::new(FailureKind::NoSuchModel, format!("{model} is not known"));
        let provider = self.catalogue.provider(&model.provider).ok_or_else(unknown)?;
        let info = provider.embedding(&model.model);
        let order = self.order_of(agent, &provider.id);
        self.shared
            .embed(&info, order.as_deref(), EmbedRequest { model: &info, inputs, purpose }, ledger)
            .await
    }

    /// The models to try. With a named credential only its own provider's: another vendor must not answer, and bill,
    /// in its place.
    fn links(&self, agent: &AgentId, spec: &RunSpec, ledger: &Arc<Ledger>) -> Vec<Link> {
        let named = spec.profile.as_deref().map(canonical);
        let wanted = |model: &&ModelRef| match named.as_deref().and_then(|id| id.split_once('/')) {
            Some((provider, _)) => provider == model.provider,
            None => true,
        };
        spec.models.iter().filter(wanted).filter_map(|model| self.link(agent, model, ledger)).collect()
    }

    fn order_of(&self, agent: &AgentId, provider: &str) -> Option<Vec<String>> {
        let own = self.order.of_agent.get(agent.as_str()).and_then(|order| order.get(provider));
        own.or_else(|| self.order.everywhere.get(provider)).cloned()
    }

    fn scripted(&self, model: &ModelRef, file: &Path, ledger: &Arc<Ledger>) -> Arc<dyn Model> {
        Arc::new(Scripted {
            model: model.clone(),
            file: file.to_owned(),
            ledger: Arc::clone(ledger),
            clock: Arc::clone(&self.shared.clock),
        })
    }
}

#[async_trait]
impl Providers for Registry {
    async fn ready(&self, spec: &RunSpec) -> Result<(), CannotSpeak> {
        let mut first = Ok(());
        // Who names a credential wants the first model with it, and nobody else.
        let asked = if spec.profile.is_some() { spec.models.len().min(1) } else { spec.models.len() };
        for (at, model) in spec.models.iter().take(asked).enumerate() {
            match self.check(model, spec.profile.as_deref()).await {
                Ok(()) => return Ok(()),
                error if at == 0 => first = error,
                _ => {}
            }
        }
        first
    }

    async fn embed(
        &self,
        agent: &AgentId,
        model: &ModelRef,
        inputs: &[String],
        purpose: Purpose,
        ledger: &Ledger,
    ) -> Result<Embedded, Failure> {
        Self::embed(self, agent, model, inputs, purpose, ledger).await
    }

    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        let links = self.links(agent, spec, ledger);
        if let (true, Some(first)) = (links.is_empty(), spec.models.first()) {
            self.addressed(first)?;
        }
        Ok(Arc::new(Chain {
            shared: Arc::clone(&self.shared),
            agent: agent.clone(),
            links,
            profile: spec.profile.as_deref().map(canonical),
            limit: spec.limits.call_timeout_ms.map(Duration::from_millis),
            max_cost: spec.limits.max_cost,
            ledger: Arc::clone(ledger),
        }))
    }
}

/// A credential's id as it is stored, however it was written.
fn canonical(profile: &str) -> String {
    profile.parse().map_or_else(|_| profile.to_owned(), |id: ProfileId| id.to_string())
}

fn ids(order: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let canonical_list = |list: &Vec<String>| list.iter().map(|id| canonical(id)).collect();
    order.iter().map(|(provider, list)| (crate::normalize_provider(provider), canonical_list(list))).collect()
}

fn cooldowns(config: &Config) -> Cooldowns {
    let said = &config.auth.cooldowns;
    let hours = |hours: f64| Duration::try_from_secs_f64(hours * 3600.0).unwrap_or_default();
    let own = said.billing_backoff_hours_by_provider.iter();
    Cooldowns {
        billing_backoff: hours(said.billing_backoff_hours),
        billing_backoff_by_provider: own.map(|(name, time)| (name.clone(), hours(*time))).collect(),
        billing_max: hours(said.billing_max_hours),
        failure_window: hours(said.failure_window_hours),
    }
}
