//! Where a command that changes something does its work: in the process that holds the home, or in its own.

use std::sync::Arc;
use std::time::Duration;

use tidegate_config::Loaded;
use tidegate_engine::{Drain, Engine, Home, Options, Settings};
use tidegate_protocol::TenantId;
use tidegate_runtime::SystemClock;

use crate::app::{App, config_file, lock_home, now_ms};
use crate::failure::Failure;
use crate::store::{Access, open};

/// The home, held by this command.
pub(crate) struct Held {
    pub(crate) engine: Engine,
}

impl Held {
    /// Takes the home and starts the engine in this process.
    pub(crate) async fn take(
        app: &App,
        home: &Home,
        loaded: &Loaded,
        purpose: &str,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let lock = lock_home(app, home, purpose, patience).await?;
        config_file(home).activate(loaded, now_ms())?;
        let store = open(home, &loaded.config, Access::Write).await?;
        let settings = Settings::new(loaded);
        let tenant: TenantId = settings.scope(None)?.tenant;
        let options = Options::passing(tenant, settings);
        let engine = Engine::start(lock, store, Arc::new(SystemClock), options).await?;
        Ok(Self { engine })
    }

    /// Lets the home go once everything accepted has its end.
    pub(crate) async fn let_go(self) {
        self.engine.close(Drain::Everything).await;
    }
}
