//! A new key for everything: made, used, and only then is the old one removed.
//!
//! Each step leaves the store readable: after the first both keys are there, after the second nothing needs the old
//! one. So it does not matter where the process is killed; the next rotation tidies up.

use tidegate_runtime::fault;

use super::view::{View, seal_into};
use super::{CredentialStore, Rotation};
use crate::error::SecretsError;
use crate::keys::KeyPlace;
use crate::profile::ProfileId;
use crate::seal::SealingKey;

impl CredentialStore {
    /// Seals everything anew with a new key, in the place that the options ask for. What cannot be opened now stays as
    /// it is, and so does its key.
    pub fn rotate_key(&self) -> Result<Rotation, SecretsError> {
        let mut view = self.change()?;
        fault::point("secrets.rotate.before");
        let (key_id, key, place) = view.add_key()?;
        fault::point("secrets.rotate.key_added");
        let rotation = reseal(&mut view, &key_id, &key, place)?;
        fault::point("secrets.rotate.resealed");
        view.drop_unused_keys()?;
        fault::point("secrets.rotate.done");
        self.forget_remembered();
        Ok(rotation)
    }
}

/// The sealed texts are opened and sealed as they are, so what a newer release put into them stays in them.
fn reseal(
    view: &mut View<'_>,
    key_id: &str,
    key: &SealingKey,
    place: KeyPlace,
) -> Result<Rotation, SecretsError> {
    let entries: Vec<(ProfileId, _)> =
        view.document.entries().map(|(id, entry)| (id, entry.clone())).collect();
    let mut rotation = Rotation { place, resealed: 0, left: Vec::new() };
    for (id, mut entry) in entries {
        let Ok(plain) = view.opened(&id, &entry) else {
            rotation.left.push(id);
            continue;
        };
        seal_into(&id, &mut entry, key_id, key, &plain)?;
        view.document.set(&id, entry);
        rotation.resealed += 1;
    }
    view.save()?;
    Ok(rotation)
}
