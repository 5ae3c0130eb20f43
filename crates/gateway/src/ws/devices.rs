//! Paired devices: which keys may connect in which role and with which scopes, and the tokens they were given.
//!
//! The file is `credentials/devices.json` of the home, written whole or not at all. It holds no token: a device's token is
//! derived from the home's own, the device, its role and a count, so that it can be told again and never read back, and
//! ends with the home's token or when the count goes up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::token::{keyed, store};

/// How long a request to pair waits for an answer.
const PENDING_MS: i64 = 5 * 60 * 1000;
/// Requests that may wait at once; the oldest makes room.
const PENDING: usize = 100;

/// What a device may do in a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    pub(crate) scopes: Vec<String>,
    /// Goes up with every new token.
    pub(crate) count: u32,
    pub(crate) created_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rotated_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at_ms: Option<i64>,
}

/// What a device says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Describes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_mode: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paired {
    pub(crate) device_id: String,
    pub(crate) public_key: String,
    #[serde(flatten)]
    pub(crate) describes: Describes,
    pub(crate) roles: BTreeMap<String, Grant>,
    pub(crate) created_at_ms: i64,
    pub(crate) approved_at_ms: i64,
}

/// A device that asks to be paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pending {
    pub(crate) request_id: String,
    pub(crate) device_id: String,
    pub(crate) public_key: String,
    #[serde(flatten)]
    pub(crate) describes: Describes,
    pub(crate) role: String,
    pub(crate) scopes: Vec<String>,
    /// The device was paired before, with another key or for less.
    pub(crate) is_repair: bool,
    pub(crate) ts: i64,
}

/// A device that connects, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) device: String,
    pub(crate) key: String,
    pub(crate) role: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) describes: Describes,
}

#[derive(Debug, Default)]
struct State {
    paired: BTreeMap<String, Paired>,
    pending: Vec<Pending>,
}

/// The devices of a home.
pub(crate) struct Devices {
    path: PathBuf,
    key: [u8; 32],
    state: Mutex<State>,
}

#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {cause}", .path.display())]
pub(crate) struct Unwritten {
    path: PathBuf,
    cause: std::io::Error,
}

impl Devices {
    /// Reads the file. One that is damaged is left where it is and counts as empty: whoever is not paired pairs again.
    pub(crate) fn load(path: &Path, key: [u8; 32]) -> Self {
        let paired = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "paired devices cannot be read; they have to pair again");
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        Self { path: path.to_owned(), key, state: Mutex::new(State { paired, pending: Vec::new() }) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what is paired, and writes it down before anybody is told.
    fn change<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Paired>) -> T) -> Result<T, Unwritten> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut paired = state.paired.clone();
        let outcome = work(&mut paired);
        if paired != state.paired {
            let text = serde_json::to_string_pretty(&paired).unwrap_or_default();
            store(&self.path, &text).map_err(|cause| Unwritten { path: self.path.clone(), cause })?;
            state.paired = paired;
        }
        Ok(outcome)
    }

    /// Whether the device may connect like that already.
    pub(crate) fn is_paired(&self, wanted: &Wanted) -> bool {
        self.with(|state| {
            let known = state.paired.get(&wanted.device).filter(|known| known.public_key == wanted.key);
            let grant = known.and_then(|known| known.roles.get(&wanted.role));
            grant.is_some_and(|grant| {
                grant.revoked_at_ms.is_none()
                    && wanted.scopes.iter().all(|scope| grant.scopes.contains(scope))
            })
        })
    }

    /// Pairs the device for what it wants, beside what it may already.
    pub(crate) fn pair(&self, wanted: &Wanted, now: i64) -> Result<Paired, Unwritten> {
        self.change(|all| {
            let fresh = || Paired {
                device_id: wanted.device.clone(),
                public_key: wanted.key.clone(),
                describes: Describes::default(),
                roles: BTreeMap::new(),
                created_at_ms: now,
                approved_at_ms: now,
            };
            let known = all.entry(wanted.device.clone()).or_insert_with(fresh);
            known.public_key.clone_from(&wanted.key);
            known.describes = wanted.describes.clone();
            known.approved_at_ms = now;
            let grant = known.roles.entry(wanted.role.clone()).or_insert_with(|| Grant {
                scopes: Vec::new(),
                count: 1,
                created_at_ms: now,
                rotated_at_ms: None,
                revoked_at_ms: None,
            });
            grant.scopes.extend(wanted.scopes.iter().cloned());
            grant.scopes.sort();
            grant.scopes.dedup();
            if grant.revoked_at_ms.take().is_some() {
                grant.count += 1;
            }
            known.clone()
        })
    }

    /// The token of a device in a role, if it has one.
    pub(crate) fn token(&self, device: &str, role: &str) -> Option<(String, Grant)> {
        let grant = self.with(|state| state.paired.get(device)?.roles.get(role).cloned())?;
        (grant.revoked_at_ms.is_none()).then(|| (self.derive(device, role, grant.count), grant))
    }

    fn derive(&self, device: &str, role: &str, count: u32) -> String {
        let text = format!("device token v1\n{device}\n{role}\n{count}");
        BASE64_URL_SAFE_NO_PAD.encode(keyed(&self.key).chain_update(text).finalize().into_bytes())
    }

    /// Whether a token is the device's, for all of these scopes.
    pub(crate) fn is_token(&self, device: &str, role: &str, scopes: &[String], token: &str) -> bool {
        let Some((expected, grant)) = self.token(device, role) else { return false };
        let proof = |text: &str| keyed(&self.key).chain_update(text).finalize().into_bytes();
        let same = keyed(&self.key).chain_update(token).verify(&proof(&expected)).is_ok();
        same && scopes.iter().all(|scope| grant.scopes.contains(scope))
    }

    /// Puts a request, or finds the one that waits for the same device. `true` when it is new.
    pub(crate) fn ask(&self, wanted: &Wanted, id: String, now: i64) -> (Pending, bool) {
        self.with(|state| {
            state.pending.retain(|pending| now - pending.ts < PENDING_MS);
            let same = |pending: &&Pending| {
                pending.device_id == wanted.device
                    && pending.role == wanted.role
                    && pending.scopes == wanted.scopes
                    && pending.public_key == wanted.key
            };
            if let Some(known) = state.pending.iter().find(same) {
                return (known.clone(), false);
            }
            // One device has one request.
            state.pending.retain(|pending| pending.device_id != wanted.device);
            if state.pending.len() == PENDING {
                state.pending.remove(0);
            }
            let pending = Pending {
                request_id: id,
                device_id: wanted.device.clone(),
                public_key: wanted.key.clone(),
                describes: wanted.describes.clone(),
                role: wanted.role.clone(),
                scopes: wanted.scopes.clone(),
                is_repair: state.paired.contains_key(&wanted.device),
                ts: now,
            };
            state.pending.push(pending.clone());
            (pending, true)
        })
    }

    /// Takes a request that waits.
    pub(crate) fn take(&self, request: &str, now: i64) -> Option<Pending> {
        self.with(|state| {
            state.pending.retain(|pending| now - pending.ts < PENDING_MS);
            let at = state.pending.iter().position(|pending| pending.request_id == request)?;
            Some(state.pending.remove(at))
        })
    }

    pub(crate) fn list(&self, now: i64) -> (Vec<Pending>, Vec<Paired>) {
        self.with(|state| {
            state.pending.retain(|pending| now - pending.ts < PENDING_MS);
            (state.pending.clone(), state.paired.values().cloned().collect())
        })
    }

    /// Gives a device a new token; the one before is void. `None` when it has no such role.
    pub(crate) fn rotate(
        &self,
        device: &str,
        role: &str,
        scopes: Option<Vec<String>>,
        now: i64,
    ) -> Result<Option<Grant>, Unwritten> {
        self.change(|all| {
            let grant = all.get_mut(device)?.roles.get_mut(role)?;
            grant.count += 1;
            grant.rotated_at_ms = Some(now);
            grant.revoked_at_ms = None;
            if let Some(scopes) = scopes {
                // A new token never has more than the one before.
                grant.scopes.retain(|scope| scopes.contains(scope));
            }
            Some(grant.clone())
        })
    }

    /// Takes a device's token away. `None` when it has no such role.
    pub(crate) fn revoke(&self, device: &str, role: &str, now: i64) -> Result<Option<Grant>, Unwritten> {
        self.change(|all| {
            let grant = all.get_mut(device)?.roles.get_mut(role)?;
            grant.revoked_at_ms = Some(now);
            Some(grant.clone())
        })
    }

    pub(crate) fn rename(&self, device: &str, name: &str) -> Result<bool, Unwritten> {
        self.change(|all| {
            let Some(known) = all.get_mut(device) else { return false };
            known.describes.display_name = Some(name.to_owned());
            true
        })
    }
}

impl Pending {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            device: self.device_id.clone(),
            key: self.public_key.clone(),
            role: self.role.clone(),
            scopes: self.scopes.clone(),
            describes: self.describes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(scopes: &[&str]) -> Wanted {
        Wanted {
            device: "d1".into(),
            key: "k1".into(),
            role: "operator".into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            describes: Describes::default(),
        }
    }

    #[test]
    fn a_pairing_lasts_and_a_token_goes_with_its_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials").join("devices.json");
        let devices = Devices::load(&path, [7; 32]);
        let read = wanted(&["operator.read"]);
        assert!(!devices.is_paired(&read));
        devices.pair(&read, 1).unwrap();
        let (token, _) = devices.token("d1", "operator").unwrap();

        let again = Devices::load(&path, [7; 32]);
        assert!(again.is_paired(&read) && !again.is_paired(&wanted(&["operator.admin"])));
        assert!(!again.is_paired(&Wanted { key: "other".into(), ..read.clone() }));
        assert!(!again.is_paired(&Wanted { role: "node".into(), ..read.clone() }));
        assert!(again.is_token("d1", "operator", &read.scopes, &token));
        assert!(!again.is_token("d1", "operator", &["operator.admin".into()], &token));
        assert!(!again.is_token("d1", "node", &[], &token) && !again.is_token("d2", "operator", &[], &token));

        again.rotate("d1", "operator", None, 2).unwrap().unwrap();
        assert!(!again.is_token("d1", "operator", &read.scopes, &token));
        let (newer, _) = again.token("d1", "operator").unwrap();
        again.revoke("d1", "operator", 3).unwrap().unwrap();
        assert!(!again.is_token("d1", "operator", &read.scopes, &newer) && !again.is_paired(&read));
        // Paired anew it gets another token: the one that was taken away stays void.
        again.pair(&read, 4).unwrap();
        assert!(!again.is_token("d1", "operator", &read.scopes, &newer));
        assert!(!std::fs::read_to_string(&path).unwrap().contains(&newer));
        assert!(!Devices::load(&path, [8; 32]).is_token("d1", "operator", &[], &newer));
    }

    #[test]
    fn a_device_has_one_request_for_five_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let devices = Devices::load(&folder.path().join("devices.json"), [7; 32]);
        let (first, new) = devices.ask(&wanted(&["operator.read"]), "r1".into(), 0);
        assert!(new && first.request_id == "r1");
        let (same, new) = devices.ask(&wanted(&["operator.read"]), "r2".into(), 10);
        assert!(!new && same == first);
        let (other, new) = devices.ask(&wanted(&["operator.write"]), "r3".into(), 20);
        assert!(new && devices.list(20).0 == [other]);
        assert_eq!(devices.take("r1", 20), None);
        assert_eq!(devices.take("r3", 20 + PENDING_MS), None);
    }
}
