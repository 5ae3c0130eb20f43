//! Credentials wherever they are kept: stored logins and keys, the environment, the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tidegate_config::schema::{AuthMode, AuthProfile};
use tidegate_runtime::Clock;
use tidegate_secrets::{Credential, CredentialStore, ProfileId, Secret, SecretsError, StoreOptions};

use crate::aws;
use crate::catalogue::{Api, Catalogue, ProviderInfo};
use crate::credentials::{Credentials, Granted};
use crate::failure::{Failure, FailureKind};
use crate::rotation::{Candidate, CredentialKind};
use crate::wire::Access;

/// Reads a variable of the environment.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Names of credentials that are not stored.
const FROM_ENVIRONMENT: &str = "env";
const FROM_CONFIG: &str = "config";
const NONE: &str = "none";
const FROM_AWS: &str = "aws";

pub(crate) struct Keyring {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) folder: PathBuf,
    pub(crate) options: StoreOptions,
    /// Opened when the first model that needs a credential is asked: most commands need none.
    pub(crate) store: OnceLock<Arc<CredentialStore>>,
    pub(crate) environment: Environment,
    /// What the configuration says of stored ones.
    pub(crate) listed: BTreeMap<String, AuthProfile>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Keyring {
    pub(crate) fn store(&self) -> Result<&Arc<CredentialStore>, SecretsError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let opened = Arc::new(CredentialStore::open(&self.folder, self.options.clone())?);
        Ok(self.store.get_or_init(|| opened))
    }

    /// What there is for a provider, wherever it is kept.
    pub(crate) fn found(&self, provider: &ProviderInfo) -> Result<Vec<Candidate>, SecretsError> {
        let mut found = self.stored(&provider.id)?;
        let id = |name: &str| format!("{}/{name}", provider.id);
        if self.variable(provider).is_some() {
            found.push(Candidate { profile_id: id(FROM_ENVIRONMENT), kind: CredentialKind::Environment });
        }
        if provider.api == Api::BedrockConverseStream && aws::find(self.environment.as_ref()).is_some() {
            found.push(Candidate { profile_id: id(FROM_AWS), kind: CredentialKind::Environment });
        }
        if provider.api_key.is_some() {
            found.push(Candidate { profile_id: id(FROM_CONFIG), kind: CredentialKind::Configured });
        }
        if found.is_empty() && provider.keyless {
            found.push(Candidate { profile_id: id(NONE), kind: CredentialKind::None });
        }
        Ok(found)
    }

    fn stored(&self, provider: &str) -> Result<Vec<Candidate>, SecretsError> {
        // No folder, no credential: looking must not make one.
        if self.store.get().is_none() && !self.folder.join("profiles.json").exists() {
            return Ok(Vec::new());
        }
        let listing = self.store()?.list()?;
        let now = self.clock.now_ms();
        let any_listed = self.listed.values().any(|listed| listed.provider == provider);
        let mut found = Vec::new();
        for profile in listing.profiles.iter().filter(|profile| profile.id.provider() == provider) {
            let kind = match profile.kind.as_str() {
                "oauth" => CredentialKind::Login,
                "token" => CredentialKind::Token,
                "api_key" => CredentialKind::Key,
                _ => continue,
            };
            let over = kind == CredentialKind::Token && profile.expires_at.is_some_and(|at| at <= now);
            let said =
                self.listed.iter().find(|(id, _)| id.parse().is_ok_and(|id: ProfileId| id == profile.id));
            let wanted = match said {
                Some((_, said)) => fits(said.mode, kind),
                None => !any_listed,
            };
            if wanted && !over && profile.unreadable.is_none() {
                found.push(Candidate { profile_id: profile.id.to_string(), kind });
            }
        }
        Ok(found)
    }

    fn variable(&self, provider: &ProviderInfo) -> Option<(String, Secret)> {
        let set = |name: &String| {
            let value = (self.environment)(name)?;
            (!value.trim().is_empty()).then(|| (name.clone(), Secret::new(value.trim())))
        };
        provider.key_variables.iter().find_map(set)
    }

    fn provider(&self, id: &str) -> Result<&ProviderInfo, Failure> {
        self.catalogue
            .provider(id)
            .ok_or_else(|| Failure::new(FailureKind::NoSuchModel, format!("there is no provider {id:?}")))
    }

    async fn stored_access(&self, id: &str) -> Result<Access, Failure> {
        let id: ProfileId = id.parse().map_err(|error| unreadable(&error))?;
        let profile = self.store().and_then(|store| store.get(&id)).map_err(|error| unreadable(&error))?;
        let Some(profile) = profile else {
            return Err(Failure::new(FailureKind::Auth, format!("the credential {id} is gone")));
        };
        Ok(match profile.credential {
            Credential::ApiKey { key, .. } => Access::Key(key),
            Credential::Token { token, .. } => Access::Login { token, account_id: None },
            Credential::Oauth { access, account_id, .. } => Access::Login { token: access, account_id },
        })
    }
}

fn fits(mode: Option<AuthMode>, kind: CredentialKind) -> bool {
    match mode {
        None => true,
        Some(AuthMode::ApiKey) => kind == CredentialKind::Key,
        Some(AuthMode::Token) => kind == CredentialKind::Token,
        Some(AuthMode::Oauth) => matches!(kind, CredentialKind::Login | CredentialKind::Token),
    }
}

fn unreadable(error: &SecretsError) -> Failure {
    Failure::new(FailureKind::Auth, error.to_string())
}

#[async_trait]
impl Credentials for Keyring {
    async fn candidates(&self, provider: &str) -> Result<Vec<Candidate>, Failure> {
        self.found(self.provider(provider)?).map_err(|error| unreadable(&error))
    }

    async fn preferred(&self, provider: &str) -> Option<String> {
        self.store.get()?.active(provider).ok().flatten().map(|id| id.to_string())
    }

    async fn grant(&self, provider: &str, profile_id: &str, _renew: bool) -> Result<Granted, Failure> {
        let provider = self.provider(provider)?;
        let name = profile_id.strip_prefix(provider.id.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let gone = || Failure::new(FailureKind::Auth, format!("the credential {profile_id} is gone"));
        let access = match name {
            Some(FROM_ENVIRONMENT) => {
                let (variable, key) = self.variable(provider).ok_or_else(gone)?;
                // A token of a person's login among keys: it is sent as one.
                let is_login = variable.contains("OAUTH") || provider.login_only;
                if is_login { Access::Login { token: key, account_id: None } } else { Access::Key(key) }
            }
            Some(FROM_AWS) => {
                let keys = aws::find(self.environment.as_ref()).ok_or_else(gone)?;
                keys.access(provider.region.as_deref())
            }
            Some(FROM_CONFIG) => Access::Key(provider.api_key.clone().ok_or_else(gone)?),
            Some(NONE) => Access::Open,
            _ => self.stored_access(profile_id).await?,
        };
        Ok(Granted { access, base_url: None })
    }
}
