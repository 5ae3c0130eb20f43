//! The models of this installation, put together from configuration, environment and stored credentials.

use std::sync::Arc;

use tidegate_config::Loaded;
use tidegate_config::schema::KeyStore;
use tidegate_engine::Home;
use tidegate_models::{Registry, RegistryOptions, StandingStore};
use tidegate_runtime::SystemClock;
use tidegate_secrets::{KeyChoice, StoreOptions};

use crate::app::App;

pub(crate) fn registry(
    app: &App,
    home: &Home,
    loaded: &Loaded,
    standings: Arc<dyn StandingStore>,
) -> Registry {
    let env = app.env.clone();
    let vars = loaded.config.env.vars.clone();
    let environment = move |name: &str| {
        let brought = || vars.get(name).map(|value| value.expose().to_owned());
        env.get(name).map(str::to_owned).or_else(brought)
    };
    let keys = match loaded.config.auth.key_store {
        KeyStore::Auto => KeyChoice::Auto,
        KeyStore::File => KeyChoice::File,
        KeyStore::Keychain => KeyChoice::Keychain,
    };
    let options = RegistryOptions {
        home: home.root().to_owned(),
        credentials: home.credentials(),
        store: StoreOptions { keys, ..StoreOptions::default() },
        environment: Arc::new(environment),
        standings,
        clock: Arc::new(SystemClock),
    };
    Registry::new(&loaded.config, options)
}
