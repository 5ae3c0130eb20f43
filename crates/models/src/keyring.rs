//! Credentials wherever they are kept: stored logins and keys, the environment, the configuration.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_config::schema::{AuthMode, AuthProfile};
use tidegate_net::Client;
use tidegate_runtime::{Clock, spawn_blocking};
use tidegate_secrets::{Credential, CredentialStore, Listing, ProfileId, Secret, SecretsError, StoreOptions};

use crate::aws;
use crate::catalogue::{Api, Catalogue, ProviderInfo};
use crate::failure::{Failure, FailureKind};
use crate::login::{LoginError, LoginSettings, RefreshError, Refresher, copilot, refresher};
use crate::rotation::{Candidate, CredentialKind};
use crate::wire::{Access, bedrock};

/// Reads a variable of the environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Names of credentials that are not stored.
const FROM_ENVIRONMENT: &str = "env";
const FROM_CONFIG: &str = "config";
const NONE: &str = "none";
const FROM_AWS: &str = "aws";

/// A credential ready for a call.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) access: Access,
    /// Where it is to be used, when the credential decides that.
    pub(crate) base_url: Option<String>,
}

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
    pub(crate) client: Client,
    pub(crate) logins: LoginSettings,
    pub(crate) refresher: OnceLock<Refresher>,
    pub(crate) lent: Mutex<HashMap<String, Lent>>,
}

/// What was given out last under a name, so that a refusal can be laid to it.
#[derive(Clone)]
pub(crate) struct Lent {
    token: Secret,
    /// A login that is not stored, made from a token of the environment.
    made: Option<Credential>,
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
        // No folder, no credential: looking must not make one.
        if self.store.get().is_none() && !self.is_there() {
            return self.candidates_of(provider, None);
        }
        let listing = self.store()?.list()?;
        self.candidates_of(provider, Some(&listing))
    }

    /// The same without holding up whoever runs beside it: a keychain may take its time.
    async fn found_apart(&self, provider: &ProviderInfo) -> Result<Vec<Candidate>, Failure> {
        let known = self.store.get().cloned();
        if known.is_none() && !self.is_there() {
            return self.candidates_of(provider, None).map_err(|error| unreadable(&error));
        }
        let (folder, options) = (self.folder.clone(), self.options.clone());
        let listed = spawn_blocking("credentials", move || {
            let store = match known {
                Some(store) => store,
                None => Arc::new(CredentialStore::open(&folder, options)?),
            };
            let listing = store.list()?;
            Ok::<_, SecretsError>((store, listing))
        });
        let listed = listed.join().await.map_err(|end| Failure::new(FailureKind::Broken, end.to_string()))?;
        let (store, listing) = listed.map_err(|error| unreadable(&error))?;
        self.store.get_or_init(|| store);
        self.candidates_of(provider, Some(&listing)).map_err(|error| unreadable(&error))
    }

    fn is_there(&self) -> bool {
        self.folder.join("profiles.json").exists()
    }

    fn candidates_of(
        &self,
        provider: &ProviderInfo,
        stored: Option<&Listing>,
    ) -> Result<Vec<Candidate>, SecretsError> {
        let stored = stored.map(|listing| self.stored(&provider.id, listing));
        let (mut found, unreadable) = stored.unwrap_or_default();
        let id = |name: &str| format!("{}/{name}", provider.id);
        if self.variable(provider).is_some() {
            found.push(Candidate::new(id(FROM_ENVIRONMENT), CredentialKind::Environment));
        }
        if provider.api == Api::BedrockConverseStream && aws::find(self.environment.as_ref()).is_some() {
            found.push(Candidate::new(id(FROM_AWS), CredentialKind::Environment));
        }
        if provider.api_key.is_some() {
            found.push(Candidate::new(id(FROM_CONFIG), CredentialKind::Configured));
        }
        // A credential that is there and cannot be read is not the same as none.
        if let (true, Some(error)) = (found.is_empty(), unreadable) {
            return Err(error);
        }
        if found.is_empty() && provider.keyless {
            found.push(Candidate::new(id(NONE), CredentialKind::None));
        }
        Ok(found)
    }

    /// Those that can be used, and why one cannot be read.
    fn stored(&self, provider: &str, listing: &Listing) -> (Vec<Candidate>, Option<SecretsError>) {
        let now = self.clock.now_ms();
        let any_listed = self.listed.values().any(|listed| listed.provider == provider);
        let (mut found, mut unreadable) = (Vec::new(), None);
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
            if !wanted || over {
                continue;
            }
            if let Some(error) = &profile.unreadable {
                unreadable = Some(error.clone());
            } else {
                found.push(Candidate {
                    profile_id: profile.id.to_string(),
                    kind,
                    changed_at: profile.updated_at,
                    chosen: profile.active,
                });
            }
        }
        (found, unreadable)
    }

    fn variable(&self, provider: &ProviderInfo) -> Option<(String, Secret)> {
        let set = |name: &String| {
            let value = (self.environment)(name)?;
            (!value.trim().is_empty()).then(|| (name.clone(), Secret::new(value.trim())))
        };
        provider.key_variables.iter().find_map(set)
    }

    /// Amazon's address for the region that is set, where no address is.
    fn regional(&self, provider: &ProviderInfo) -> Option<String> {
        let wanted = provider.api == Api::BedrockConverseStream && provider.base_url.is_empty();
        let region = || provider.region.clone().or_else(|| aws::region(self.environment.as_ref()));
        wanted.then(region).flatten().map(|region| bedrock::address(&region))
    }

    fn provider(&self, id: &str) -> Result<&ProviderInfo, Failure> {
        self.catalogue
            .provider(id)
            .ok_or_else(|| Failure::new(FailureKind::NoSuchModel, format!("there is no provider {id:?}")))
    }

    fn refresher(&self) -> Result<&Refresher, SecretsError> {
        if let Some(refresher) = self.refresher.get() {
            return Ok(refresher);
        }
        let store = Arc::clone(self.store()?);
        let (client, logins, clock) = (self.client.clone(), self.logins.clone(), Arc::clone(&self.clock));
        Ok(self.refresher.get_or_init(|| refresher(store, client, logins, clock)))
    }

    fn lent(&self, profile_id: &str) -> Option<Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).get(profile_id).cloned()
    }

    fn lend(&self, profile_id: &str, granted: &Granted, made: Option<Credential>) {
        if let Some(token) = granted.access.token() {
            let lent = Lent { token: token.clone(), made };
            self.lent.lock().unwrap_or_else(PoisonError::into_inner).insert(profile_id.to_owned(), lent);
        }
    }

    /// A stored one, refreshed first when it has run out or was refused.
    async fn stored_access(&self, profile_id: &str, renew: bool) -> Result<Granted, Failure> {
        let id: ProfileId = profile_id.parse().map_err(|error| unreadable(&error))?;
        let refused = self.lent(profile_id).filter(|_| renew).map(|lent| lent.token);
        let refresher = self.refresher().map_err(|error| unreadable(&error))?;
        let profile = refresher.fresh(&id, refused.as_ref()).await.map_err(|error| not_fresh(&error))?;
        let granted = of_credential(profile.credential);
        self.lend(profile_id, &granted, None);
        Ok(granted)
    }

    /// A GitHub token of the environment is exchanged for one of the model service, which is kept while it lasts.
    async fn exchanged(&self, profile_id: &str, github: &Secret, renew: bool) -> Result<Granted, Failure> {
        let now = self.clock.now_ms();
        let kept = self.lent(profile_id).and_then(|lent| lent.made);
        let kept = kept.filter(|made| !renew && made.expires_at().is_some_and(|at| at > now));
        let made = match kept {
            Some(made) => made,
            None => copilot::of_github(&self.client, &self.logins.copilot, github)
                .await
                .map_err(|error| not_exchanged(&error))?,
        };
        let granted = of_credential(made.clone());
        self.lend(profile_id, &granted, Some(made));
        Ok(granted)
    }
}

fn of_credential(credential: Credential) -> Granted {
    match credential {
        Credential::ApiKey { key, .. } => Granted { access: Access::Key(key), base_url: None },
        Credential::Token { token, .. } => {
            Granted { access: Access::Login { token, account_id: None }, base_url: None }
        }
        Credential::Oauth { access, account_id, extra, .. } => Granted {
            access: Access::Login { token: access, account_id },
            base_url: extra.get(copilot::API_BASE).cloned(),
        },
    }
}

fn not_fresh(error: &RefreshError) -> Failure {
    let kind = match error {
        // The provider of logins cannot be reached: that says nothing about the login.
        RefreshError::NotNow { .. } | RefreshError::Busy { .. } => FailureKind::Broken,
        _ => FailureKind::Auth,
    };
    Failure::new(kind, error.to_string())
}

fn not_exchanged(error: &LoginError) -> Failure {
    let kind = if error.is_temporary() { FailureKind::Broken } else { FailureKind::Auth };
    Failure::new(kind, error.to_string())
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

impl Keyring {
    /// What there is for a provider. Asked before each run: a login may have come or gone.
    pub(crate) async fn candidates(&self, provider: &str) -> Result<Vec<Candidate>, Failure> {
        self.found_apart(self.provider(provider)?).await
    }

    /// Fetches one, renewed first if it has run out, or if the provider refused it (`renew`).
    pub(crate) async fn grant(
        &self,
        provider: &str,
        profile_id: &str,
        renew: bool,
    ) -> Result<Granted, Failure> {
        let provider = self.provider(provider)?;
        let name = profile_id.strip_prefix(provider.id.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let gone = || Failure::new(FailureKind::Auth, format!("the credential {profile_id} is gone"));
        let access = match name {
            Some(FROM_ENVIRONMENT) => {
                let (variable, key) = self.variable(provider).ok_or_else(gone)?;
                if provider.id == copilot::PROVIDER {
                    return self.exchanged(profile_id, &key, renew).await;
                }
                // A token of a person's login among keys: it is sent as one.
                let is_login = variable.contains("OAUTH") || provider.login_only;
                if is_login { Access::Login { token: key, account_id: None } } else { Access::Key(key) }
            }
            Some(FROM_AWS) => {
                let keys = aws::find(self.environment.as_ref()).ok_or_else(gone)?;
                // A profile may name a region of its own.
                return Ok(Granted { access: keys.access(provider.region.as_deref()), base_url: None });
            }
            Some(FROM_CONFIG) => Access::Key(provider.api_key.clone().ok_or_else(gone)?),
            Some(NONE) => Access::Open,
            _ => {
                let granted = self.stored_access(profile_id, renew).await?;
                let base_url = granted.base_url.or_else(|| self.regional(provider));
                return Ok(Granted { base_url, ..granted });
            }
        };
        Ok(Granted { access, base_url: self.regional(provider) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_runtime::SystemClock;

    use super::*;

    fn keyring(folder: &Path, variables: &'static [(&str, &str)]) -> Keyring {
        let config = tidegate_config::schema::Config::default();
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Keyring {
            catalogue: Arc::new(Catalogue::new(&config, folder)),
            folder: folder.join("credentials"),
            options: StoreOptions::default(),
            store: OnceLock::new(),
            environment: Arc::new(move |name| find(name).map(|(_, value)| (*value).to_owned())),
            listed: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            client: Client::default(),
            logins: LoginSettings::default(),
            refresher: OnceLock::new(),
            lent: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn a_bearer_of_amazons_key_goes_to_the_region_of_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let variables = &[("AWS_BEARER_TOKEN_BEDROCK", "key"), ("AWS_REGION", "eu-west-1")];
        let keyring = keyring(home.path(), variables);
        let granted = keyring.grant("amazon-bedrock", "amazon-bedrock/env", false).await.unwrap();
        let expected = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        assert_eq!(granted.base_url.as_deref(), Some(expected));
    }

    #[tokio::test]
    async fn both_ways_of_looking_find_the_same_and_make_nothing() {
        let home = tempfile::tempdir().unwrap();
        let keyring = keyring(home.path(), &[("OPENAI_API_KEY", "key")]);
        let provider = keyring.provider("openai").unwrap();
        assert_eq!(keyring.found_apart(provider).await.unwrap(), keyring.found(provider).unwrap());
        assert!(!keyring.folder.exists());
        let key = Credential::ApiKey { key: Secret::new("stored"), email: None };
        keyring.store().unwrap().add("openai", None, key).unwrap();
        let found = keyring.found_apart(provider).await.unwrap();
        assert_eq!(found, keyring.found(provider).unwrap());
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|candidate| !candidate.chosen), "nobody chose one");
        keyring.store().unwrap().set_active(&"openai/default".parse().unwrap()).unwrap();
        let found = keyring.found_apart(provider).await.unwrap();
        assert!(found.iter().all(|candidate| candidate.chosen == (candidate.profile_id == "openai/default")));
    }

    #[test]
    fn a_server_that_cannot_be_reached_says_nothing_about_a_token() {
        let refused = LoginError::Refused { status: 401, reason: "bad".to_owned() };
        assert_eq!(not_exchanged(&refused).kind, FailureKind::Auth);
        assert_eq!(not_exchanged(&LoginError::TimedOut).kind, FailureKind::Broken);
    }
}
