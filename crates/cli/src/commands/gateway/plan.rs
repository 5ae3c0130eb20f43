//! What a gateway is started with: made and checked as a whole, before the gateway it follows ends.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tidegate_channels::local::{self, Local};
use tidegate_config::Loaded;
use tidegate_config::schema::{Backend, Bind, Storage};
use tidegate_engine::{Home, HomeLock, Options, Settings, StoredStandings};
use tidegate_gateway::{Restarter, ServeError, open_port};
use tidegate_policy::Profile;
use tidegate_protocol::{Connector, SessionKey};
use tidegate_runtime::SystemClock;
use tidegate_sandbox::Sandboxes;
use tidegate_storage::Store;

use super::super::channels::without_connector;
use super::taken::taken;
use crate::app::App;
use crate::failure::Failure;
use crate::output::complain;
use crate::registry::registry;
use crate::sandboxes::sandboxes;
use crate::store::{Access, open_to_stay};
use crate::texts;
use crate::toolbox::{mention_bare, toolbox};

/// What stays however often the gateway restarts.
pub(super) struct Process<'a> {
    pub(super) app: &'a App,
    pub(super) home: &'a Home,
    /// What was typed, for those who have to type it again.
    pub(super) command: String,
    /// `--port`, which is stronger than the configuration.
    pub(super) port: Option<u16>,
    pub(super) lock: HomeLock,
    pub(super) restarter: Restarter,
    /// Standard output is read by a program.
    pub(super) quiet: bool,
}

/// What a gateway leaves to the one that follows it.
pub(super) struct Kept {
    /// As it was asked for; the port may be 0.
    wanted: SocketAddr,
    /// Whoever connects while nobody serves waits here.
    pub(super) listener: Option<TcpListener>,
    storage: Storage,
    store: Arc<dyn Store>,
}

/// A gateway that can be started.
pub(super) struct Plan {
    pub(super) loaded: Loaded,
    pub(super) options: Options,
    pub(super) store: Arc<dyn Store>,
    pub(super) sandboxes: Arc<Sandboxes>,
    pub(super) profile: Profile,
    wanted: SocketAddr,
    listener: Option<TcpListener>,
}

impl Plan {
    /// Makes everything that can be made while another gateway may still be at work.
    pub(super) async fn new(
        process: &Process<'_>,
        loaded: Loaded,
        before: Option<&Kept>,
    ) -> Result<Self, Failure> {
        let Process { app, home, .. } = process;
        for channel in without_connector(&loaded.config) {
            complain(&app.fill(texts::CHANNEL_NOT_YET, &[("channel", &channel)]));
        }
        let ip = match loaded.config.gateway.bind {
            Bind::Loopback => [127, 0, 0, 1],
            Bind::Lan => [0, 0, 0, 0],
        };
        let wanted = (ip, process.port.unwrap_or(loaded.config.gateway.port)).into();
        // Before anything is received or answered.
        let listener = match before {
            Some(kept) => kept.listener_for(wanted, process).await?,
            None => Some(opened(process, wanted).await?),
        };
        let store = match before {
            Some(kept) if kept.fits(&loaded.config.storage) => Arc::clone(&kept.store),
            _ => open_to_stay(home, &loaded.config, Access::Write).await?,
        };
        let settings = Settings::new(&loaded);
        let scope = settings.scope(None)?;
        let main = SessionKey::named(scope.clone(), "main").to_string();
        mention_bare(app, &settings, &scope, &main);
        let sandboxes = Arc::new(sandboxes(app, home, &settings)?);
        let standings = Arc::new(StoredStandings::new(Arc::clone(&store), scope.tenant.clone()));
        let profile = settings.profile(&scope, &main);
        let options = Options {
            connectors: connectors(&loaded, home, &scope),
            stays: true,
            models: Arc::new(registry(app, home, &loaded, standings)),
            toolbox: toolbox(app, home, &settings, Arc::clone(&sandboxes))?,
            ..Options::passing(scope.tenant.clone(), settings)
        };
        Ok(Self { loaded, options, store, sandboxes, profile, wanted, listener })
    }

    /// Whether its port can be opened only when the gateway before it has closed its own.
    pub(super) fn waits_for_port(&self) -> bool {
        self.listener.is_none()
    }

    /// Opens the port if that is still to be done, and says what the next gateway can take over.
    pub(super) async fn port(&mut self, process: &Process<'_>) -> Result<(TcpListener, Kept), Failure> {
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => opened(process, self.wanted).await?,
        };
        let kept = Kept {
            wanted: self.wanted,
            listener: Some(listener.try_clone()?),
            storage: self.loaded.config.storage.clone(),
            store: Arc::clone(&self.store),
        };
        Ok((listener, kept))
    }
}

impl Kept {
    /// Whether the next gateway has the same database. A file is the same whatever is said about servers: it must never have two
    /// writers.
    fn fits(&self, wanted: &Storage) -> bool {
        let both_files = self.storage.backend == Backend::Sqlite && wanted.backend == Backend::Sqlite;
        both_files || self.storage == *wanted
    }

    /// The same store whatever the next configuration says.
    pub(super) fn is_for(&self, loaded: &Loaded) -> bool {
        self.fits(&loaded.config.storage)
    }

    /// The port for the next gateway: the same one, another one, or none yet.
    async fn listener_for(
        &self,
        wanted: SocketAddr,
        process: &Process<'_>,
    ) -> Result<Option<TcpListener>, Failure> {
        match &self.listener {
            Some(listener) if self.wanted == wanted => Ok(Some(listener.try_clone()?)),
            // Another address with our own port: it is free once we let go.
            Some(listener) if listener.local_addr()?.port() == wanted.port() => Ok(None),
            _ => Ok(Some(opened(process, wanted).await?)),
        }
    }
}

/// Opens a port, or says who has it.
async fn opened(process: &Process<'_>, wanted: SocketAddr) -> Result<TcpListener, Failure> {
    match open_port(wanted).await {
        Ok(listener) => Ok(listener),
        Err(ServeError::PortInUse { address }) => Err(taken(process.app, &process.command, address).await),
        Err(error) => Err(error.into()),
    }
}

fn connectors(loaded: &Loaded, home: &Home, scope: &tidegate_protocol::Scope) -> Vec<Arc<dyn Connector>> {
    let Some(section) = &loaded.config.channels.local else { return Vec::new() };
    local::from_config(section, &home.channels())
        .into_iter()
        .map(|settings| -> Arc<dyn Connector> {
            let (tenant, workspace) = (scope.tenant.clone(), scope.workspace.clone());
            Arc::new(Local::new(settings, Arc::new(SystemClock), tenant, workspace))
        })
        .collect()
}
