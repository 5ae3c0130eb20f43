//! How every credential does, for all runs of this process; what is learned is kept beyond it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::cooldown::{Cooldowns, Standing};
use crate::failure::{Failure, FailureKind};
use crate::rotation::{Candidate, CredentialKind};

/// Of what something is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StandingKey {
    pub provider: String,
    pub profile_id: String,
    /// One model; all of the provider's when absent.
    pub model: Option<String>,
}

/// Where standings are kept. It may fail silently: what is lost is learned again.
#[async_trait]
pub trait StandingStore: Send + Sync {
    async fn load(&self) -> Vec<(StandingKey, Standing)>;
    async fn save(&self, key: &StandingKey, standing: &Standing);
}

/// Keeps nothing.
pub struct Forgetful;

#[async_trait]
impl StandingStore for Forgetful {
    async fn load(&self) -> Vec<(StandingKey, Standing)> {
        Vec::new()
    }

    async fn save(&self, _: &StandingKey, _: &Standing) {}
}

/// A use is written down this often at most: it only decides whose turn it is.
const USE_MS: i64 = 60_000;

pub(crate) struct Standings {
    known: Mutex<HashMap<StandingKey, Standing>>,
    loaded: OnceCell<()>,
    store: Arc<dyn StandingStore>,
    rules: Cooldowns,
}

impl Standings {
    pub(crate) fn new(store: Arc<dyn StandingStore>, rules: Cooldowns) -> Self {
        Self { known: Mutex::default(), loaded: OnceCell::new(), store, rules }
    }

    /// Reads what was kept, once.
    pub(crate) async fn load(&self) {
        self.loaded
            .get_or_init(|| async {
                let kept = self.store.load().await;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                for (key, standing) in kept {
                    known.entry(key).or_insert(standing);
                }
            })
            .await;
    }

    /// The credential's standing for a model: what is held against it there or everywhere.
    pub(crate) fn of(&self, provider: &str, candidate: &Candidate, model: &str) -> Standing {
        let profile_id = candidate.profile_id.as_str();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |model: Option<&str>| {
            let standing = known.get(&key(provider, profile_id, model)).cloned().unwrap_or_default();
            // What was stored since then is another secret: it starts clean.
            let replaced = standing.last_failure_at < candidate.changed_at;
            if replaced {
                Standing { last_used_at: standing.last_used_at, ..Standing::default() }
            } else {
                standing
            }
        };
        let (everywhere, here) = (find(None), find(Some(model)));
        let worse = if everywhere.until() > here.until() { &everywhere } else { &here };
        Standing {
            cooldown_until: everywhere.cooldown_until.max(here.cooldown_until),
            disabled_until: everywhere.disabled_until.max(here.disabled_until),
            last_used_at: everywhere.last_used_at.max(here.last_used_at),
            ..worse.clone()
        }
    }

    /// A failure counts against the credential everywhere if the account is to blame, else for the model only: one
    /// model's limit does not block the others.
    pub(crate) async fn failed(
        &self,
        provider: &str,
        candidate: &Candidate,
        model: &str,
        failure: &Failure,
        now: i64,
    ) {
        let profile_id = candidate.profile_id.as_str();
        let kept = !matches!(candidate.kind, CredentialKind::Environment | CredentialKind::Configured);
        // Without a credential there is nothing to rest.
        if candidate.kind == CredentialKind::None {
            return;
        }
        let key = key(provider, profile_id, (!blames_account(failure)).then_some(model));
        let standing = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let standing = known.entry(key.clone()).or_default();
            *standing = standing.failed(provider, failure.kind, failure.retry_after, now, &self.rules);
            standing.clone()
        };
        // A key of the environment or the file may be another one the next time: what its account was blamed for must
        // not be held against that.
        if kept || key.model.is_some() {
            self.store.save(&key, &standing).await;
        }
    }

    /// A success clears what was held against the credential for this model, and for all.
    pub(crate) async fn succeeded(&self, provider: &str, profile_id: &str, model: &str, now: i64) {
        let mut changed = Vec::new();
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let everywhere = key(provider, profile_id, None);
            let before = known.get(&everywhere).cloned();
            let fresh = Standing::succeeded(now);
            let stale = before.as_ref().is_none_or(|before| {
                before.until() > 0 || now - before.last_used_at > USE_MS || now < before.last_used_at
            });
            if stale {
                changed.push((everywhere.clone(), fresh.clone()));
                known.insert(everywhere, fresh.clone());
            }
            let here = key(provider, profile_id, Some(model));
            if known.remove(&here).is_some() {
                changed.push((here, fresh));
            }
        }
        for (key, standing) in changed {
            self.store.save(&key, &standing).await;
        }
    }
}

/// Whether the account is to blame, and not what was asked of it. A refusal of one thing (403) is about that thing.
fn blames_account(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Billing => true,
        FailureKind::Auth => failure.status != Some(403),
        _ => false,
    }
}

fn key(provider: &str, profile_id: &str, model: Option<&str>) -> StandingKey {
    StandingKey {
        provider: provider.to_owned(),
        profile_id: profile_id.to_owned(),
        model: model.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str) -> Candidate {
        Candidate::new(id.to_owned(), CredentialKind::Key)
    }

    #[tokio::test]
    async fn one_models_limit_does_not_block_the_account_and_an_empty_purse_does() {
        let standings = Standings::new(Arc::new(Forgetful), Cooldowns::default());
        let (a, b) = (candidate("a"), candidate("b"));
        standings.failed("p", &a, "big", &Failure::new(FailureKind::RateLimit, "slow down"), 1000).await;
        assert!(standings.of("p", &a, "big").is_cooling(1001));
        assert!(!standings.of("p", &a, "small").is_cooling(1001));
        assert!(!standings.of("p", &b, "big").is_cooling(1001));
        standings.failed("p", &a, "big", &Failure::new(FailureKind::Billing, "no credit"), 1000).await;
        assert!(standings.of("p", &a, "small").is_cooling(1001));
        standings.succeeded("p", "a", "big", 2000).await;
        assert!(!standings.of("p", &a, "small").is_cooling(2001));
        assert!(!standings.of("p", &a, "big").is_cooling(2001));
    }

    #[tokio::test]
    async fn what_one_model_forbids_does_not_block_the_others() {
        let standings = Standings::new(Arc::new(Forgetful), Cooldowns::default());
        let forbidden = Failure { status: Some(403), ..Failure::new(FailureKind::Auth, "not this one") };
        standings.failed("p", &candidate("a"), "big", &forbidden, 1000).await;
        assert!(standings.of("p", &candidate("a"), "big").is_cooling(1001));
        assert!(!standings.of("p", &candidate("a"), "small").is_cooling(1001));
    }

    #[tokio::test]
    async fn a_credential_that_was_replaced_starts_clean_and_none_at_all_never_rests() {
        let standings = Standings::new(Arc::new(Forgetful), Cooldowns::default());
        let refused = Failure::new(FailureKind::Auth, "no");
        standings.failed("p", &candidate("a"), "m", &refused, 1000).await;
        let replaced = Candidate { changed_at: 1500, ..candidate("a") };
        assert!(!standings.of("p", &replaced, "m").is_cooling(1600));
        let keyless = Candidate { kind: CredentialKind::None, ..candidate("n") };
        standings.failed("p", &keyless, "m", &refused, 1000).await;
        assert!(!standings.of("p", &keyless, "m").is_cooling(1001));
    }
}
