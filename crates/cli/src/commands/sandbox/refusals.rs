//! What a program was refused, in words, each with the key that decides about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tidegate_engine::ConfinementKeys;
use tidegate_policy::{Access, Confinement, Network, Profile, Refusal, Refused};

use crate::app::App;
use crate::output::printable;
use crate::texts::sandbox as words;

/// Keeps what was refused, each thing once.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    refusals: BTreeSet<Refusal>,
    /// Hosts that the proxy did not lead to, and why.
    hosts: BTreeMap<String, String>,
}

impl Refusals {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, refusal: &Refusal) {
        self.kept().refusals.insert(refusal.clone());
    }

    pub(super) fn turned_away(&self, host: &str, why: &str) {
        self.kept().hosts.insert(host.to_owned(), why.to_owned());
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
        let kept = self.kept();
        let calls = kept.refusals.iter().map(|refusal| line(app, refusal, confinement, keys));
        let hosts = kept.hosts.iter().map(|(host, why)| {
            app.fill(words::REFUSED_HOST, &[("host", &printable(host)), ("why", &printable(why))])
        });
        let mut lines: Vec<_> = calls.chain(hosts).collect();
        let unseen = (!Self::are_seen(confinement))
            .then(|| app.fill(words::REFUSED_UNSEEN, &[("profile", &confinement.profile.name())]));
        match (lines.is_empty(), unseen) {
            (true, None) => lines.push(app.say(words::REFUSED_NOTHING).to_owned()),
            (true, Some(unseen)) => lines.push(unseen),
            (false, unseen) => {
                lines.insert(0, app.say(words::REFUSED).to_owned());
                lines.extend(unseen);
            }
        }
        lines
    }

    /// The same for programs; nothing where they cannot be seen.
    pub(super) fn json(&self, app: &App, confinement: &Confinement, keys: &ConfinementKeys) -> Value {
        let kept = self.kept();
        let calls = kept.refusals.iter().map(|refusal| {
            let mut told = json!({
                "call": refusal.call,
                "error": reason(refusal),
                "by": advice(app, refusal, confinement, keys),
            });
            match &refusal.what {
                Refused::Path { path, write } => {
                    told["path"] = json!(path);
                    told["write"] = json!(write);
                }
                Refused::Address(address) => told["address"] = json!(address),
                Refused::Call => {}
            }
            told
        });
        let hosts = kept.hosts.iter().map(|(host, why)| json!({ "host": host, "error": why }));
        let all: Vec<_> = calls.chain(hosts).collect();
        if all.is_empty() && !Self::are_seen(confinement) { Value::Null } else { Value::Array(all) }
    }
}

/// The error that the program got.
fn reason(refusal: &Refusal) -> String {
    let error = io::Error::from_raw_os_error(refusal.error).to_string();
    error.split(" (os error").next().unwrap_or_default().to_owned()
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
    let error = reason(refusal);
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
