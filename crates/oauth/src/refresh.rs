//! Keeping logins fresh: one refresh at a time a profile, in this process and among all of them.
//!
//! A provider may accept a refresh token once only. So whoever wants to refresh takes the profile's turn, looks again
//! whether somebody else has done it meanwhile, makes sure that the result can be saved, and only then asks. The work
//! runs in a task of its own: a caller that gives up must not lose tokens that are already on their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_runtime::{Clock, spawn, spawn_blocking};
use tidegate_secrets::{Credential, CredentialStore, Lock, Profile, ProfileId, Secret, SecretsError};
use tokio::time::Instant;

use crate::LoginError;

/// A login that ends sooner than this is refreshed …
const EARLY_MS: i64 = 300_000;
/// … unless it never lasts long: then in this last part of its life.
const LAST_PART: i64 = 5;
/// Longer than a refresh by another process can take.
const TURN_PATIENCE: Duration = Duration::from_secs(90);

/// Why there is no usable login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    #[error("the login {id} has ended: {cause}; log in again")]
    LoginAgain { id: ProfileId, cause: LoginError },
    #[error("the login {id} cannot be refreshed now: {cause}")]
    NotNow { id: ProfileId, cause: LoginError },
    #[error("a login of {provider} cannot be refreshed here; log in again")]
    Unsupported { provider: String },
    #[error("another process has been refreshing {id} for too long")]
    Busy { id: ProfileId },
    #[error(transparent)]
    Store(#[from] SecretsError),
    #[error("{0}")]
    Task(String),
}

/// Knows how to ask for new tokens.
#[async_trait]
pub trait Renew: Send + Sync {
    /// The new credential; `None` when nothing here knows the provider.
    async fn renew(&self, profile: &Profile) -> Option<Result<Credential, LoginError>>;
}

/// Clones share their turns.
#[derive(Clone)]
pub struct Refresher {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<CredentialStore>,
    renew: Box<dyn Renew>,
    clock: Arc<dyn Clock>,
    /// One a profile; as many as there are profiles.
    turns: Mutex<HashMap<ProfileId, Arc<tokio::sync::Mutex<()>>>>,
}

impl Refresher {
    pub fn new(store: Arc<CredentialStore>, renew: Box<dyn Renew>, clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { store, renew, clock, turns: Mutex::default() }) }
    }

    /// The profile, refreshed if it ends soon or if the provider refused this access token. Other kinds of credentials
    /// are given as they are.
    pub async fn fresh(&self, id: &ProfileId, refused: Option<&Secret>) -> Result<Profile, RefreshError> {
        let profile = self.shared.read(id).await?;
        if !needs_refresh(&profile, refused, self.shared.clock.now_ms()) {
            return Ok(profile);
        }
        let (shared, id, refused) = (Arc::clone(&self.shared), id.clone(), refused.cloned());
        let work = async move { shared.refresh(&id, refused.as_ref()).await };
        spawn("refresh login", work).join().await.map_err(|end| RefreshError::Task(end.to_string()))?
    }
}

/// Whether a login has to be refreshed before it is used. A token that was refused and is no longer the stored one was
/// refreshed by somebody else.
fn needs_refresh(profile: &Profile, refused: Option<&Secret>, now: i64) -> bool {
    match &profile.credential {
        Credential::Oauth { access, expires_at, .. } => {
            let lasts = expires_at.saturating_sub(profile.updated_at).max(0);
            let early = EARLY_MS.min(lasts / LAST_PART);
            refused == Some(access) || expires_at.saturating_sub(early) <= now
        }
        _ => false,
    }
}

impl Shared {
    async fn refresh(&self, id: &ProfileId, refused: Option<&Secret>) -> Result<Profile, RefreshError> {
        let turn = self.turn(id);
        let _turn = turn.lock().await;
        let _lock = self.lock(id).await?;
        let profile = self.read(id).await?;
        if !needs_refresh(&profile, refused, self.clock.now_ms()) {
            return Ok(profile);
        }
        // Saved once as it is: a disk that is full or a key that is gone has to show before the old token is spent.
        let profile = self.replace(&profile, profile.credential.clone()).await?;
        match self.ask(&profile).await {
            Ok(credential) => self.replace(&profile, credential).await,
            Err(RefreshError::NotNow { id, cause }) if self.is_usable(&profile, refused) => {
                tracing::warn!(profile = %id, %cause, "the login was not refreshed; it is used while it lasts");
                Ok(profile)
            }
            Err(error) => Err(error),
        }
    }

    async fn ask(&self, profile: &Profile) -> Result<Credential, RefreshError> {
        let Some(asked) = self.renew.renew(profile).await else {
            return Err(RefreshError::Unsupported { provider: profile.provider.clone() });
        };
        asked.map_err(|cause| {
            let id = profile.id.clone();
            if cause.is_temporary() {
                RefreshError::NotNow { id, cause }
            } else {
                RefreshError::LoginAgain { id, cause }
            }
        })
    }

    /// Whether a login that was not refreshed can still be used.
    fn is_usable(&self, profile: &Profile, refused: Option<&Secret>) -> bool {
        match &profile.credential {
            Credential::Oauth { access, expires_at, .. } => {
                refused != Some(access) && *expires_at > self.clock.now_ms()
            }
            _ => true,
        }
    }

    fn turn(&self, id: &ProfileId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(id.clone()).or_default())
    }

    async fn lock(&self, id: &ProfileId) -> Result<Lock, RefreshError> {
        let end = Instant::now() + TURN_PATIENCE;
        let mut pause = Duration::from_millis(2);
        loop {
            let wanted = id.clone();
            if let Some(lock) = self.blocking(move |store| store.try_lock_profile(&wanted)).await? {
                return Ok(lock);
            }
            if Instant::now() >= end {
                return Err(RefreshError::Busy { id: id.clone() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    async fn read(&self, id: &ProfileId) -> Result<Profile, RefreshError> {
        let wanted = id.clone();
        let found = self.blocking(move |store| store.get(&wanted)).await?;
        found.ok_or_else(|| SecretsError::NoSuchProfile(id.to_string()).into())
    }

    async fn replace(&self, seen: &Profile, credential: Credential) -> Result<Profile, RefreshError> {
        let seen = seen.clone();
        self.blocking(move |store| store.replace(&seen, credential)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CredentialStore) -> Result<T, SecretsError> + Send + 'static,
    ) -> Result<T, RefreshError> {
        let store = Arc::clone(&self.store);
        let done = spawn_blocking("credentials", move || work(&store)).join().await;
        Ok(done.map_err(|end| RefreshError::Task(end.to_string()))??)
    }
}

#[cfg(test)]
mod tests;
