//! Logins that were made: kept sealed, given out to their own server only, renewed one at a time.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tidegate_net::{Client, Secret};
use tidegate_oauth::{LoginError, RefreshError, Refresher, Renew};
use tidegate_runtime::{Clock, spawn_blocking};
use tidegate_secrets::{Credential, CredentialStore, Profile, ProfileId, SecretsError, StoreOptions};

use super::SignInError;
use super::token::{Terms, credential, revoke, tokens};

/// What stands in the place of a provider.
const PROVIDER: &str = tidegate_secrets::MCP;

/// The logins of this installation.
pub struct Logins {
    folder: PathBuf,
    options: StoreOptions,
    client: Client,
    clock: Arc<dyn Clock>,
    /// Opened when the first server is asked for whose login may be there: looking makes nothing.
    opened: OnceLock<(Arc<CredentialStore>, Refresher)>,
}

/// What may be seen of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSummary {
    pub issuer: String,
    pub scope: String,
    pub expires_at: i64,
    /// Whether it is renewed by itself.
    pub renewable: bool,
}

/// Why a login that is there cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("its login has ended")]
    Ended,
    #[error("its login cannot be used now: {0}")]
    NotNow(String),
}

impl Logins {
    pub fn new(folder: PathBuf, options: StoreOptions, client: Client, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { folder, options, client, clock, opened: OnceLock::new() })
    }

    fn open(&self) -> Result<&(Arc<CredentialStore>, Refresher), SecretsError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let store = Arc::new(CredentialStore::open(&self.folder, self.options.clone())?);
        let renew = Renewal { client: self.client.clone(), clock: Arc::clone(&self.clock) };
        let refresher = Refresher::new(Arc::clone(&store), Box::new(renew), Arc::clone(&self.clock));
        Ok(self.opened.get_or_init(|| (store, refresher)))
    }

    /// When anything was last stored; `None` when nothing ever was.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        std::fs::metadata(self.folder.join("profiles.json")).ok()?.modified().ok()
    }

    /// Until another login at this server is stored than the one there is now. Every login that is renewed changes the
    /// file, so the file alone says nothing.
    pub(crate) async fn signed_in(self: &Arc<Self>, server: &str, every: Duration) {
        let mut changed = self.changed();
        let before = self.stored(server).await.flatten();
        loop {
            tokio::time::sleep(every).await;
            let now = self.changed();
            if now == changed {
                continue;
            }
            changed = now;
            match self.stored(server).await {
                Some(found) if found != before => return,
                _ => {}
            }
        }
    }

    /// The login at a server; `None` when that cannot be known.
    async fn stored(self: &Arc<Self>, server: &str) -> Option<Option<Credential>> {
        let (logins, name) = (Arc::clone(self), server.to_owned());
        let found = spawn_blocking("credentials", move || logins.found(&name)).join().await;
        Some(found.ok()?.ok()?.map(|profile| profile.credential))
    }

    fn found(&self, server: &str) -> Result<Option<Profile>, SecretsError> {
        if self.changed().is_none() {
            return Ok(None);
        }
        self.open()?.0.get(&id(server)?)
    }

    pub fn save(&self, server: &str, credential: Credential) -> Result<LoginSummary, SecretsError> {
        let saved = self.open()?.0.put(&id(server)?, credential)?;
        summary(&saved.credential).ok_or_else(|| SecretsError::NoSuchProfile(server.to_owned()))
    }

    /// The login at a server, if it is one at this address.
    pub fn summary(&self, server: &str, url: &str) -> Result<Option<LoginSummary>, SecretsError> {
        let found = self.found(server)?;
        Ok(found.filter(|profile| is_for(&profile.credential, url)).and_then(|p| summary(&p.credential)))
    }

    /// Forgets a login, and tells the authorization server if it wants to be told. `false` when there was none.
    pub async fn forget(&self, server: &str) -> Result<bool, SecretsError> {
        let Some(profile) = self.found(server)? else { return Ok(false) };
        self.open()?.0.remove(&profile.id)?;
        if let (Some(terms), Credential::Oauth { access, refresh, .. }) =
            (Terms::of(&profile.credential), &profile.credential)
        {
            let token = if refresh.is_empty() { access } else { refresh };
            if let Err(error) = revoke(&self.client, &terms, token).await {
                tracing::warn!(server, %error, "the login is forgotten here, but could not be revoked there");
            }
        }
        Ok(true)
    }

    /// The token for a server at this address, renewed if it ends soon or was refused.
    pub(crate) async fn token(
        self: &Arc<Self>,
        server: &str,
        url: &str,
        refused: Option<&Secret>,
    ) -> Result<Option<Secret>, Unusable> {
        let not_now = |error: String| Unusable::NotNow(error);
        let (logins, name) = (Arc::clone(self), server.to_owned());
        let found = spawn_blocking("credentials", move || logins.found(&name)).join().await;
        let found = found.map_err(|end| not_now(end.to_string()))?.map_err(|e| not_now(e.to_string()))?;
        let Some(profile) = found.filter(|profile| is_for(&profile.credential, url)) else { return Ok(None) };
        if let Credential::Oauth { access, refresh, expires_at, .. } = &profile.credential
            && refresh.is_empty()
        {
            let usable = refused != Some(access) && *expires_at > self.clock.now_ms();
            return if usable { Ok(Some(access.clone())) } else { Err(Unusable::Ended) };
        }
        let (_, refresher) = self.open().map_err(|error| not_now(error.to_string()))?;
        match refresher.fresh(&profile.id, refused).await {
            Ok(Profile { credential: Credential::Oauth { access, .. }, .. }) => Ok(Some(access)),
            Ok(_) | Err(RefreshError::Store(SecretsError::NoSuchProfile(_))) => Ok(None),
            Err(RefreshError::LoginAgain { .. }) => Err(Unusable::Ended),
            Err(error) => Err(not_now(error.to_string())),
        }
    }
}

fn id(server: &str) -> Result<ProfileId, SecretsError> {
    ProfileId::new(PROVIDER, server)
}

/// A server that moved elsewhere in the configuration does not get what was meant for the old place.
fn is_for(credential: &Credential, url: &str) -> bool {
    Terms::of(credential).is_some_and(|terms| terms.server == url)
}

fn summary(credential: &Credential) -> Option<LoginSummary> {
    let terms = Terms::of(credential)?;
    let Credential::Oauth { refresh, expires_at, .. } = credential else { return None };
    let renewable = !refresh.is_empty();
    Some(LoginSummary { issuer: terms.issuer, scope: terms.scope, expires_at: *expires_at, renewable })
}

struct Renewal {
    client: Client,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Renew for Renewal {
    async fn renew(&self, profile: &Profile) -> Option<Result<Credential, LoginError>> {
        let terms = Terms::of(&profile.credential).filter(|_| profile.provider == PROVIDER)?;
        let Credential::Oauth { refresh, .. } = &profile.credential else { return None };
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let answer = match tokens(&self.client, &terms, &fields).await {
            Ok(answer) => answer,
            Err(SignInError::Login(error)) => return Some(Err(error)),
            Err(_) => {
                let reason = "its address is not asked any more".to_owned();
                return Some(Err(LoginError::Refused { status: 0, reason }));
            }
        };
        Some(credential(&answer, &terms, Some(refresh), self.clock.now_ms()))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_runtime::SystemClock;

    use super::*;

    fn login(access: &str) -> Credential {
        Credential::Oauth {
            access: Secret::new(access),
            refresh: Secret::new("r"),
            expires_at: 0,
            account_id: None,
            email: None,
            client_id: Some("c".to_owned()),
            extra: [
                ("server", "https://h/mcp"),
                ("resource", "https://h/mcp"),
                ("issuer", "https://as"),
                ("tokenUrl", "https://as/token"),
                ("proof", "client_secret_post"),
                (tidegate_secrets::CLIENT_SECRET, "s3cr3t-of-the-client"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        }
    }

    #[tokio::test]
    async fn only_another_login_at_the_same_server_is_a_login() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("credentials");
        let (options, clock) = (StoreOptions::default(), Arc::new(SystemClock));
        let logins = Logins::new(home, options, Client::default(), clock);
        logins.save("a", login("old")).unwrap();
        let every = Duration::from_millis(5);
        let waiting = logins.signed_in("a", every);
        tokio::pin!(waiting);
        let others = async {
            for n in 0..5 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                logins.save("b", login(&n.to_string())).unwrap();
                // As a renewal does that is refused.
                logins.save("a", login("old")).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        tokio::select! {
            () = &mut waiting => panic!("nobody signed in at a"),
            () = others => {}
        }
        logins.save("a", login("new")).unwrap();
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap();
    }

    #[test]
    fn a_clients_secret_is_not_shown_with_the_login() {
        let shown = format!("{:?}", login("access-token"));
        assert!(shown.contains("https://as/token") || shown.contains("tokenUrl"), "{shown}");
        assert!(!shown.contains("s3cr3t") && !shown.contains("access-token"), "{shown}");
    }
}
