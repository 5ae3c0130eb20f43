//! The keys that seal credentials, and where each of them is kept.
//!
//! `key.json` names every key by its id and says where it is: in the file itself, or in the keychain of the person's
//! session. A key that cannot be had is an error that says so; it is never replaced in silence, because what it sealed
//! would be lost with it.

pub(crate) mod keychain;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
pub use keychain::Keychain;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::error::SecretsError;
use crate::files;
use crate::seal::SealingKey;

const VERSION: u64 = 1;

/// Where a new key is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyChoice {
    #[default]
    File,
    /// In the keychain if one works, else in the file.
    Auto,
    Keychain,
}

/// Where a key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    File,
    Keychain,
}

impl KeyPlace {
    /// The name in `key.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Keychain => "keychain",
        }
    }
}

/// Why a key cannot be had.
#[derive(Debug, Clone)]
pub(crate) struct Unavailable {
    key: String,
    place: String,
    cause: String,
    remedy: &'static str,
    /// Whether the keychain has it, and only does not give it.
    pub(crate) in_keychain: bool,
}

impl From<Unavailable> for SecretsError {
    fn from(why: Unavailable) -> Self {
        let Unavailable { key, place, cause, remedy, .. } = why;
        Self::KeyUnavailable { key, place, cause, remedy: remedy.to_owned() }
    }
}

/// `key.json`, as it is on disk. What a newer release wrote into it stays.
#[derive(Clone)]
pub(crate) struct KeyRing {
    path: PathBuf,
    keys: Map<String, Value>,
    /// The rest of the file.
    rest: Map<String, Value>,
}

impl KeyRing {
    /// An absent file is an empty ring. Answers also whether the file was open to others.
    pub(crate) fn load(path: &Path) -> Result<(Self, bool), SecretsError> {
        let damaged = |cause: &str| SecretsError::Damaged { path: path.to_owned(), cause: cause.to_owned() };
        let Some(read) = files::read_private(path)? else {
            return Ok((Self { path: path.to_owned(), keys: Map::new(), rest: Map::new() }, false));
        };
        let mut rest: Map<String, Value> = serde_json::from_str(&read.text).map_err(|error| {
            damaged(&format!("no JSON object at line {}, column {}", error.line(), error.column()))
        })?;
        match rest.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => return Err(SecretsError::Newer { path: path.to_owned(), version }),
            None => return Err(damaged("it has no version")),
        }
        let Some(Value::Object(keys)) = rest.shift_remove("keys") else {
            return Err(damaged("it has no keys"));
        };
        Ok((Self { path: path.to_owned(), keys, rest }, read.mended))
    }

    pub(crate) fn save(&self) -> Result<(), SecretsError> {
        let mut root = self.rest.clone();
        root.insert("keys".to_owned(), Value::Object(self.keys.clone()));
        let mut text = Zeroizing::new(Vec::new());
        // A map of texts cannot fail to be written.
        let _ = serde_json::to_writer_pretty(&mut *text, &root);
        text.push(b'\n');
        files::write_private(&self.path, &text)
    }

    /// The key that seals from now on.
    pub(crate) fn current(&self) -> Option<&str> {
        self.rest.get("current").and_then(Value::as_str)
    }

    /// Where a key is, if it is in a place that we know.
    pub(crate) fn place(&self, id: &str) -> Option<KeyPlace> {
        let name = self.keys.get(id)?.get("place")?.as_str()?;
        [KeyPlace::File, KeyPlace::Keychain].into_iter().find(|place| place.as_str() == name)
    }

    pub(crate) fn fetch(&self, id: &str, keychain: Option<&Keychain>) -> Result<SealingKey, Unavailable> {
        let unavailable = |place: String, cause: &str, remedy: &'static str, in_keychain: bool| Unavailable {
            key: id.to_owned(),
            place,
            cause: cause.to_owned(),
            remedy,
            in_keychain,
        };
        let file = || self.path.display().to_string();
        let restore = "restore that file from a backup, or log in again";
        let Some(entry) = self.keys.get(id) else {
            return Err(unavailable(file(), "it is not there", restore, false));
        };
        match self.place(id) {
            Some(KeyPlace::File) => entry["key"]
                .as_str()
                .and_then(SealingKey::decode)
                .ok_or_else(|| unavailable(file(), "what is there is not a key", restore, false)),
            Some(KeyPlace::Keychain) => {
                let unlock = "unlock the keychain of this session, or keep keys in the file and log in again";
                let Some(keychain) = keychain else {
                    let cause = "there is no session with a keychain here";
                    return Err(unavailable("the keychain".to_owned(), cause, unlock, true));
                };
                let place = format!("the keychain ({})", keychain.name());
                keychain.lookup(id).map_err(|cause| unavailable(place, &cause, unlock, true))
            }
            None => {
                let place = format!("{:?}", entry["place"].as_str().unwrap_or_default());
                let remedy = "use the release that put it there";
                Err(unavailable(place, "this release does not know that place", remedy, false))
            }
        }
    }

    /// Makes a key and puts it where it is wanted; the ring still has to be saved.
    pub(crate) fn add(
        &mut self,
        choice: KeyChoice,
        keychain: Option<&Keychain>,
        now: i64,
    ) -> Result<(String, SealingKey, KeyPlace), SecretsError> {
        let id = new_key_id()?;
        let key = SealingKey::random()?;
        let place = match (choice, keychain) {
            (KeyChoice::File, _) | (KeyChoice::Auto, None) => KeyPlace::File,
            (KeyChoice::Auto, Some(keychain)) => {
                keychain.keep(&id, &key).map_or(KeyPlace::File, |()| KeyPlace::Keychain)
            }
            (KeyChoice::Keychain, Some(keychain)) => {
                keychain.keep(&id, &key).map_err(|cause| SecretsError::KeychainUnusable { cause })?;
                KeyPlace::Keychain
            }
            (KeyChoice::Keychain, None) => {
                let cause = "there is no session with a keychain here".to_owned();
                return Err(SecretsError::KeychainUnusable { cause });
            }
        };
        let mut entry = json!({ "place": place.as_str(), "createdAt": now });
        match (place, keychain) {
            (KeyPlace::Keychain, Some(keychain)) => entry["tool"] = keychain.name().into(),
            _ => entry["key"] = key.encode().as_str().into(),
        }
        self.rest.insert("version".to_owned(), VERSION.into());
        self.rest.insert("current".to_owned(), id.clone().into());
        self.keys.insert(id.clone(), entry);
        Ok((id, key, place))
    }

    /// Takes out the keys that seal nothing any more, from the keychain first: an entry without its key does no harm,
    /// a key that nothing names would stay for ever. Answers how many.
    pub(crate) fn drop_unused(&mut self, used: &BTreeSet<String>, keychain: Option<&Keychain>) -> usize {
        let current = self.current().map(str::to_owned);
        let before = self.keys.len();
        self.keys.retain(|id, entry| {
            let keep = used.contains(id) || current.as_ref() == Some(id);
            if let (false, Some("keychain"), Some(keychain)) = (keep, entry["place"].as_str(), keychain) {
                keychain.forget(id);
            }
            keep
        });
        before - self.keys.len()
    }
}

fn new_key_id() -> Result<String, SecretsError> {
    let mut random = [0; 8];
    rand::fill(&mut random).map_err(|_| SecretsError::Randomness)?;
    Ok(format!("key-{:016x}", u64::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(folder: &Path) -> KeyRing {
        KeyRing::load(&folder.join("key.json")).unwrap().0
    }

    #[test]
    fn without_a_keychain_auto_keeps_the_key_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let mut keys = ring(home.path());
        let (id, key, place) = keys.add(KeyChoice::Auto, None, 1).unwrap();
        keys.save().unwrap();
        assert_eq!(place, KeyPlace::File);
        let read = ring(home.path());
        assert_eq!(read.current(), Some(id.as_str()));
        assert_eq!(read.fetch(&id, None).unwrap().encode(), key.encode());
    }

    #[test]
    fn an_explicit_keychain_that_is_not_there_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let error = ring(home.path()).add(KeyChoice::Keychain, None, 1).map(|_| ()).unwrap_err();
        assert!(matches!(error, SecretsError::KeychainUnusable { .. }), "{error}");
    }

    #[test]
    fn a_key_in_a_place_nobody_knows_is_unavailable_and_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key.json");
        let text = r#"{"version":1,"current":"key-1","keys":{"key-1":{"place":"tpm","slot":4}},"more":true}"#;
        std::fs::write(&path, text).unwrap();
        let mut keys = ring(home.path());
        let error = SecretsError::from(keys.fetch("key-1", None).map(|_| ()).unwrap_err()).to_string();
        assert!(error.contains("tpm"), "{error}");
        keys.add(KeyChoice::File, None, 1).unwrap();
        keys.save().unwrap();
        let root: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&root["keys"]["key-1"]["slot"], &root["more"]), (&json!(4), &json!(true)));
    }

    #[test]
    fn a_damaged_ring_is_refused_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key.json");
        for text in ["", "{", "[]", r#"{"version":1}"#, r#"{"keys":{}}"#] {
            std::fs::write(&path, text).unwrap();
            let error = KeyRing::load(&path).map(|_| ()).unwrap_err();
            assert!(matches!(error, SecretsError::Damaged { .. }), "{text}: {error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::write(&path, r#"{"version":2}"#).unwrap();
        let error = KeyRing::load(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error, SecretsError::Newer { version: 2, .. }), "{error}");
    }
}
