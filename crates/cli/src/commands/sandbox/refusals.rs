//! What a program was refused, in words, each with the key that decides about it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tidegate_engine::ConfinementKeys;
use tidegate_policy::{Access, Confinement, Network, Profile, Refusal, Refused};

use crate::app::App;
use crate::output::printable;
use crate::texts::sandbox as words;

/// Keeps what was refused, each thing once.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeSet<Refusal>>);

impl Refusals {
    pub(super) fn add(&self, refusal: &Refusal) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(refusal.clone());
    }

    /// Whether they can be seen: the programs of other profiles are out of sight.
    pub(super) fn are_seen(confinement: &Confinement) -> bool {
        cfg!(target_os = "linux") && confinement.profile == Profile::Local
    }

    /// A line each.
    pub(super) fn told(&self, app: &App, confinement: &Confinement, keys: &ConfinementKeys) -> Vec<String> {
        if confinement.profile == Profile::None {
            return Vec::new();
        }
        if !Self::are_seen(confinement) {
            return vec![app.fill(words::REFUSED_UNSEEN, &[("profile", &confinement.profile.name())])];
        }
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.is_empty() {
            return vec![app.say(words::REFUSED_NOTHING).to_owned()];
        }
        let lines = refusals.iter().map(|refusal| line(app, refusal, confinement, keys));
        std::iter::once(app.say(words::REFUSED).to_owned()).chain(lines).collect()
    }
}

fn line(app: &App, refusal: &Refusal, confinement: &Confinement, keys: &ConfinementKeys) -> String {
    let call = &refusal.call;
    let what = match &refusal.what {
        Refused::Path { path, write: false } => format!("{call} {path}"),
        Refused::Path { path, write: true } => {
            app.fill(words::REFUSED_CHANGE, &[("call", call), ("path", path)])
        }
        Refused::Address(address) => format!("{call} {address}"),
        Refused::Call => call.clone(),
    };
    let error = io::Error::from_raw_os_error(refusal.error).to_string();
    let error = error.split(" (os error").next().unwrap_or_default().to_owned();
    let by = advice(app, refusal, confinement, keys);
    let values: [(&str, &dyn Display); 3] = [("what", &printable(&what)), ("error", &error), ("by", &by)];
    app.fill(words::REFUSED_LINE, &values)
}

/// Which key decides about it.
fn advice(app: &App, refusal: &Refusal, confinement: &Confinement, keys: &ConfinementKeys) -> String {
    let inside = |path: &str| Path::new(path).starts_with(&confinement.folder);
    match &refusal.what {
        Refused::Path { path, write: true } if inside(path) && confinement.access == Access::ReadOnly => {
            app.fill(words::BY_ACCESS, &[("key", &keys.access)])
        }
        Refused::Path { .. } => app.fill(words::BY_FOLDER, &[("key", &keys.profile)]),
        Refused::Address(_) if confinement.network == Network::Full => {
            app.fill(words::BY_PROFILE, &[("key", &keys.profile)])
        }
        Refused::Address(_) => app.fill(words::BY_NETWORK, &[("key", &keys.network)]),
        Refused::Call => app.fill(words::BY_PROFILE, &[("key", &keys.profile)]),
    }
}
