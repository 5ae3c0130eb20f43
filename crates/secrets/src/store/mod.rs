//! Credentials at rest: `profiles.json` and `key.json` in the folder `credentials` of the home.
//!
//! Every change is made under a lock of the operating system, from what is in the files then, and replaces a file as a
//! whole. Whatever cannot be read is named and left alone: the store never writes over what it does not understand.
//! Calls block, for as long as a lock is waited for or a keychain is asked; asynchronous callers use a blocking task.

mod document;
mod rotate;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tidegate_runtime::{Clock, SystemClock};

use crate::error::SecretsError;
use crate::files::{self, Lock, Share};
use crate::keys::{KeyChoice, KeyPlace, Keychain};
use crate::profile::{Credential, Profile, ProfileId};
use crate::seal::SealingKey;
use view::View;

/// More logins of one account than anybody has.
const NUMBERED_LIMIT: usize = 1000;

#[derive(Clone)]
pub struct StoreOptions {
    /// Where new keys are kept.
    pub keys: KeyChoice,
    /// The keychain to use; `None` looks for the session's own.
    pub keychain: Option<Keychain>,
    /// How long to wait while another process changes something.
    pub lock_wait: Duration,
    pub clock: Arc<dyn Clock>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            keys: KeyChoice::default(),
            keychain: None,
            lock_wait: Duration::from_secs(10),
            clock: Arc::new(SystemClock),
        }
    }
}

/// What may be said about a profile, also when it cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSummary {
    pub id: ProfileId,
    /// `api_key`, `token`, `oauth`, or what a newer release calls its own.
    pub kind: String,
    pub account_id: Option<String>,
    pub email: Option<String>,
    pub expires_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    /// Whether it is its provider's active profile.
    pub active: bool,
    /// Why it cannot be used, and what to do about it.
    pub unreadable: Option<SecretsError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In the order in which they were added.
    pub profiles: Vec<ProfileSummary>,
    /// The profile that was chosen last, of whatever provider.
    pub active: Option<ProfileId>,
}

/// What a change of keys did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Where the new key is.
    pub place: KeyPlace,
    pub resealed: usize,
    /// Could not be opened; they are as they were.
    pub left: Vec<ProfileId>,
}

pub struct CredentialStore {
    folder: PathBuf,
    options: StoreOptions,
    notices: Mutex<Vec<String>>,
    /// Keys out of the keychain, so that it is asked once a process. Those in the file are read each time.
    remembered: Mutex<HashMap<String, SealingKey>>,
}

impl CredentialStore {
    /// Opens the store in `folder`, which is made if need be. A damaged file is an error here already.
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Self, SecretsError> {
        let store = Self {
            folder: folder.to_owned(),
            options,
            notices: Mutex::default(),
            remembered: Mutex::default(),
        };
        if files::private_folder(folder)? {
            store.notice(format!("{} could be read by others; it is private now", folder.display()));
        }
        store.look()?;
        Ok(store)
    }

    pub fn profiles_file(&self) -> PathBuf {
        self.folder.join("profiles.json")
    }

    fn key_file(&self) -> PathBuf {
        self.folder.join("key.json")
    }

    /// What people should be told once: permissions that were mended, keys that had to be made anew.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *held(&self.notices))
    }

    pub fn list(&self) -> Result<Listing, SecretsError> {
        let mut view = self.look()?;
        let ids: Vec<ProfileId> = view.document.entries().map(|(id, _)| id).collect();
        let profiles = ids.into_iter().filter_map(|id| summary(&mut view, id)).collect();
        Ok(Listing { profiles, active: view.document.active_profile() })
    }

    /// `None` when there is no such profile; one that cannot be opened is an error.
    pub fn get(&self, id: &ProfileId) -> Result<Option<Profile>, SecretsError> {
        self.look()?.profile(id)
    }

    /// The active profile of a provider.
    pub fn active(&self, provider: &str) -> Result<Option<ProfileId>, SecretsError> {
        Ok(self.look()?.document.active(provider))
    }

    /// A new profile `provider/name`, or `provider/name#2` and so on where that is taken. A profile that cannot be
    /// opened any more is not in the way: the new login takes its place.
    pub fn add(
        &self,
        provider: &str,
        name: Option<&str>,
        credential: Credential,
    ) -> Result<Profile, SecretsError> {
        let first = ProfileId::new(provider, name.unwrap_or("default"))?;
        let mut view = self.change()?;
        let mut id = first.clone();
        let mut number = 1;
        while view.document.entry(&id).is_some() && !is_lost(&mut view, &id) {
            number += 1;
            if number > NUMBERED_LIMIT {
                return Err(SecretsError::TooMany(first));
            }
            id = first.numbered(number)?;
        }
        let profile = view.stamped(&id, credential);
        view.put(&profile)?;
        view.save()?;
        Ok(profile)
    }

    /// Puts a credential under exactly this id, in the place of the one that may be there.
    pub fn put(&self, id: &ProfileId, credential: Credential) -> Result<Profile, SecretsError> {
        let mut view = self.change()?;
        let profile = view.stamped(id, credential);
        view.put(&profile)?;
        view.save()?;
        Ok(profile)
    }

    /// Replaces the credential of a profile if it is still the one that was seen. Answers the profile as it is then:
    /// the new one, or the one that somebody else put there meanwhile. One that was removed stays removed.
    pub fn replace(&self, seen: &Profile, credential: Credential) -> Result<Profile, SecretsError> {
        let mut view = self.change()?;
        let stored =
            view.profile(&seen.id)?.ok_or_else(|| SecretsError::NoSuchProfile(seen.id.to_string()))?;
        if stored.credential != seen.credential {
            return Ok(stored);
        }
        let profile = view.stamped(&seen.id, credential);
        view.put(&profile)?;
        view.save()?;
        Ok(profile)
    }

    /// Adds profiles from elsewhere, all or none. Those whose id is taken are left out. Answers the ids that were added.
    pub fn adopt(&self, profiles: &[Profile]) -> Result<Vec<ProfileId>, SecretsError> {
        let mut view = self.change()?;
        let mut added = Vec::new();
        for profile in profiles {
            if view.document.entry(&profile.id).is_none() {
                view.put(profile)?;
                added.push(profile.id.clone());
            }
        }
        if !added.is_empty() {
            view.save()?;
        }
        Ok(added)
    }

    /// Makes a profile the active one of its provider, and the one chosen last.
    pub fn set_active(&self, id: &ProfileId) -> Result<(), SecretsError> {
        let mut view = self.change()?;
        if view.document.entry(id).is_none() {
            return Err(SecretsError::NoSuchProfile(id.to_string()));
        }
        view.document.set_active(id);
        view.save()
    }

    /// Needs no key: what cannot be opened can be removed.
    pub fn remove(&self, id: &ProfileId) -> Result<(), SecretsError> {
        let mut view = self.change()?;
        if !view.document.remove(id) {
            return Err(SecretsError::NoSuchProfile(id.to_string()));
        }
        view.save()
    }

    /// Answers how many there were.
    pub fn remove_all(&self) -> Result<usize, SecretsError> {
        let mut view = self.change()?;
        let count = view.document.remove_all();
        if count > 0 {
            view.save()?;
        }
        Ok(count)
    }

    /// The right to refresh a profile, among all processes. `None` when another has it. The store itself stays free.
    pub fn try_lock_profile(&self, id: &ProfileId) -> Result<Option<Lock>, SecretsError> {
        // An id may hold anything, so its digest names the file.
        let name = digest::digest(&digest::SHA256, id.as_str().as_bytes());
        let name = URL_SAFE_NO_PAD.encode(&name.as_ref()[..9]);
        files::try_lock(&self.folder.join(format!("refresh-{name}.lock")), Share::OneWriter)
    }

    fn look(&self) -> Result<View<'_>, SecretsError> {
        self.view(Share::Readers)
    }

    fn change(&self) -> Result<View<'_>, SecretsError> {
        self.view(Share::OneWriter)
    }

    fn view(&self, share: Share) -> Result<View<'_>, SecretsError> {
        let lock = files::lock(&self.folder.join("profiles.lock"), share, self.options.lock_wait)?;
        View::load(self, lock)
    }

    fn notice(&self, text: String) {
        held(&self.notices).push(text);
    }

    fn remembered(&self, key: &str) -> Option<SealingKey> {
        held(&self.remembered).get(key).cloned()
    }

    fn remember(&self, id: &str, key: &SealingKey) {
        held(&self.remembered).insert(id.to_owned(), key.clone());
    }

    fn forget_remembered(&self) {
        held(&self.remembered).clear();
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a profile cannot be opened for good, as far as one can tell.
fn is_lost(view: &mut View<'_>, id: &ProfileId) -> bool {
    matches!(view.profile(id), Err(SecretsError::Unreadable { .. } | SecretsError::KeyUnavailable { .. }))
}

fn summary(view: &mut View<'_>, id: ProfileId) -> Option<ProfileSummary> {
    let unreadable = view.profile(&id).err();
    let entry = view.document.entry(&id)?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    let time = |name: &str| entry.get(name).and_then(Value::as_i64);
    Some(ProfileSummary {
        kind: text("type").unwrap_or_default(),
        account_id: text("accountId"),
        email: text("email"),
        expires_at: time("expires"),
        created_at: time("createdAt").unwrap_or(0),
        updated_at: time("updatedAt").unwrap_or(0),
        active: view.document.active(id.provider()).as_ref() == Some(&id),
        unreadable,
        id,
    })
}
