//! The secrets of this installation, for whoever looks at what goes out.

use std::path::Path;

use tidegate_engine::{Home, Settings};
use tidegate_net::{LeakScan, NamedSecret, Secret};
use tidegate_secrets::{CredentialStore, StoreOptions};

use crate::app::App;

/// Finds the secrets of this installation in what would go out. They are read at the first call that needs it.
pub(crate) fn leaks(app: &App, home: &Home, settings: &Settings) -> LeakScan {
    let mut known = settings.secrets().to_vec();
    known.extend(app.env.secrets());
    let (credentials, token) = (home.credentials(), home.local_token());
    LeakScan::reading(move || {
        let mut secrets = known.clone();
        let token = std::fs::read_to_string(&token).ok();
        secrets.extend(token.map(|token| ("the local token".to_owned(), Secret::new(token.trim()))));
        secrets.extend(stored(&credentials));
        secrets
    })
}

/// Those that were given with `auth`. One that cannot be read is not there to leave either.
fn stored(folder: &Path) -> Vec<NamedSecret> {
    // No folder, no credential: looking must not make one.
    if !folder.join("profiles.json").exists() {
        return Vec::new();
    }
    let Ok(store) = CredentialStore::open(folder, StoreOptions::default()) else { return Vec::new() };
    let Ok(listing) = store.list() else { return Vec::new() };
    let mut found = Vec::new();
    for summary in listing.profiles {
        let Ok(Some(profile)) = store.get(&summary.id) else { continue };
        let secrets = profile.credential.secrets();
        found.extend(secrets.into_iter().map(|secret| (format!("the credential {}", summary.id), secret)));
    }
    found
}
