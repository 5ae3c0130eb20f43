//! The store as one reader or writer sees it while it holds the lock.

use std::collections::HashMap;

use serde_json::Value;
use zeroize::Zeroizing;

use super::CredentialStore;
use super::document::{Document, Entry};
use crate::codec::{self, Decoded};
use crate::error::SecretsError;
use crate::files::{self, Lock};
use crate::keys::{KeyChoice, KeyPlace, KeyRing, Keychain, Unavailable};
use crate::profile::{Credential, Profile, ProfileId};
use crate::seal::{self, Binding, SealingKey};

pub(crate) struct View<'a> {
    store: &'a CredentialStore,
    pub(crate) document: Document,
    /// A ring that cannot be read does not keep anyone from listing and removing profiles.
    ring: Result<KeyRing, SecretsError>,
    keychain: Option<Keychain>,
    /// Keys that were asked for: a keychain that hangs is asked once, not once a profile.
    fetched: HashMap<String, Result<SealingKey, Unavailable>>,
    _lock: Lock,
}

impl<'a> View<'a> {
    pub(crate) fn load(store: &'a CredentialStore, lock: Lock) -> Result<Self, SecretsError> {
        let path = store.profiles_file();
        let read = files::read_private(&path)?;
        if read.as_ref().is_some_and(|read| read.mended) {
            store.notice(format!("{} could be read by others; it is private now", path.display()));
        }
        let document = Document::read(&path, read.as_ref().map(|read| read.text.as_str()))?;
        let key_file = store.key_file();
        let ring = KeyRing::load(&key_file).map(|(ring, mended)| {
            if mended {
                store.notice(format!(
                    "{} could be read by others; it is private now; change the key if others use this machine",
                    key_file.display()
                ));
            }
            ring
        });
        let keychain = store.options.keychain.clone().or_else(Keychain::found);
        Ok(Self { store, document, ring, keychain, fetched: HashMap::new(), _lock: lock })
    }

    pub(crate) fn save(&self) -> Result<(), SecretsError> {
        files::write_private(self.document.path(), &self.document.to_bytes())
    }

    fn key(&mut self, id: &str) -> Result<SealingKey, SecretsError> {
        let ring = match &self.ring {
            Ok(ring) => ring,
            Err(error) => return Err(error.clone()),
        };
        if let Some(known) = self.fetched.get(id) {
            return known.clone().map_err(Into::into);
        }
        let key = self.store.remembered(id).map_or_else(|| ring.fetch(id, self.keychain.as_ref()), Ok);
        if let (Ok(key), Some(KeyPlace::Keychain)) = (&key, ring.place(id)) {
            self.store.remember(id, key);
        }
        self.fetched.insert(id.to_owned(), key.clone());
        key.map_err(Into::into)
    }

    /// What is sealed in an entry.
    pub(crate) fn opened(
        &mut self,
        id: &ProfileId,
        entry: &Entry,
    ) -> Result<Zeroizing<Vec<u8>>, SecretsError> {
        let unreadable = SecretsError::Unreadable { id: id.clone(), path: self.store.profiles_file() };
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let (Some(key_id), Some(sealed), Some(kind)) = (text("keyId"), text("sealed"), text("type")) else {
            return Err(unreadable);
        };
        let key = self.key(key_id)?;
        let binding = Binding { id: id.as_str(), provider: id.provider(), kind };
        seal::open(&key, binding, sealed).ok_or(unreadable)
    }

    pub(crate) fn profile(&mut self, id: &ProfileId) -> Result<Option<Profile>, SecretsError> {
        let Some(entry) = self.document.entry(id).cloned() else { return Ok(None) };
        let plain = self.opened(id, &entry)?;
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
        let time = |name: &str| entry.get(name).and_then(Value::as_i64).unwrap_or(0);
        match codec::decode(kind, &entry, &plain) {
            Decoded::Known(credential) => Ok(Some(Profile {
                id: id.clone(),
                provider: id.provider().to_owned(),
                credential,
                created_at: time("createdAt"),
                updated_at: time("updatedAt"),
            })),
            Decoded::UnknownKind => Err(SecretsError::UnknownKind { id: id.clone(), kind: kind.to_owned() }),
            Decoded::Nonsense => {
                Err(SecretsError::Unreadable { id: id.clone(), path: self.store.profiles_file() })
            }
        }
    }

    /// Puts a credential in its place; the document still has to be saved.
    pub(crate) fn put(&mut self, profile: &Profile) -> Result<(), SecretsError> {
        let Profile { id, credential, .. } = profile;
        let (key_id, key) = self.sealing_key()?;
        let previous = self.document.entry(id).cloned();
        let mut entry = previous.clone().unwrap_or_default();
        // A field that says more about another kind of credential has nothing to say about this one.
        let same = entry.get("type").and_then(Value::as_str) == Some(credential.kind());
        let before = previous.filter(|_| same).and_then(|entry| self.opened(id, &entry).ok());
        entry.insert("id".to_owned(), id.as_str().into());
        entry.insert("provider".to_owned(), id.provider().into());
        codec::describe(credential, &mut entry);
        entry.insert("createdAt".to_owned(), profile.created_at.into());
        entry.insert("updatedAt".to_owned(), profile.updated_at.into());
        let plain = codec::plain(credential, before.as_ref().map(|plain| plain.as_slice()));
        seal_into(id, &mut entry, &key_id, &key, &plain)?;
        self.document.set(id, entry);
        Ok(())
    }

    /// The key for what is sealed now. One is made when there is none; a key that exists and cannot be had is an error.
    fn sealing_key(&mut self) -> Result<(String, SealingKey), SecretsError> {
        let current = match &self.ring {
            Ok(ring) => ring.current().map(str::to_owned),
            Err(error) => return Err(error.clone()),
        };
        let Some(current) = current else {
            if self.document.has_any() {
                self.store.notice(format!(
                    "{} is gone: a new key was made, and what the old one sealed stays unreadable",
                    self.store.key_file().display()
                ));
            }
            return self.add_key().map(|(id, key, _)| (id, key));
        };
        match self.key(&current) {
            Ok(key) => Ok((current, key)),
            // Asked to keep keys in the file, there is a way on that destroys nothing.
            Err(_) if self.is_out_of_reach(&current) && self.store.options.keys == KeyChoice::File => {
                self.store.notice(format!(
                    "the key {current} is in a keychain that cannot be reached: a new one was made in {}, and what the \
                     old one sealed stays unreadable until the keychain is back",
                    self.store.key_file().display()
                ));
                self.add_key().map(|(id, key, _)| (id, key))
            }
            Err(error) => Err(error),
        }
    }

    fn is_out_of_reach(&self, key: &str) -> bool {
        matches!(self.fetched.get(key), Some(Err(why)) if why.in_keychain)
    }

    /// Makes a key and saves it, before anything is sealed with it.
    pub(crate) fn add_key(&mut self) -> Result<(String, SealingKey, KeyPlace), SecretsError> {
        let now = self.store.options.clock.now_ms();
        let ring = match &mut self.ring {
            Ok(ring) => ring,
            Err(error) => return Err(error.clone()),
        };
        let (id, key, place) = ring.add(self.store.options.keys, self.keychain.as_ref(), now)?;
        ring.save()?;
        self.fetched.insert(id.clone(), Ok(key.clone()));
        if place == KeyPlace::Keychain {
            self.store.remember(&id, &key);
        }
        Ok((id, key, place))
    }

    /// Removes the keys that seal nothing any more.
    pub(crate) fn drop_unused_keys(&mut self) -> Result<(), SecretsError> {
        let used = self.document.key_ids();
        let ring = match &mut self.ring {
            Ok(ring) => ring,
            Err(error) => return Err(error.clone()),
        };
        if ring.drop_unused(&used, self.keychain.as_ref()) > 0 {
            ring.save()?;
        }
        Ok(())
    }

    /// A profile that is new, or keeps the time at which it was made.
    pub(crate) fn stamped(&self, id: &ProfileId, credential: Credential) -> Profile {
        let now = self.store.options.clock.now_ms();
        let created = self.document.entry(id).and_then(|entry| entry.get("createdAt")?.as_i64());
        Profile {
            provider: id.provider().to_owned(),
            id: id.clone(),
            credential,
            created_at: created.unwrap_or(now),
            updated_at: now,
        }
    }
}

/// Seals `plain` into an entry that already says what it is.
pub(crate) fn seal_into(
    id: &ProfileId,
    entry: &mut Entry,
    key_id: &str,
    key: &SealingKey,
    plain: &[u8],
) -> Result<(), SecretsError> {
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
    let sealed = seal::seal(key, Binding { id: id.as_str(), provider: id.provider(), kind }, plain)?;
    entry.insert("keyId".to_owned(), key_id.into());
    entry.insert("sealed".to_owned(), sealed.into());
    Ok(())
}
