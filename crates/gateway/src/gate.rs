//! The gateway: what its listeners share, and how each of them is opened.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidegate_engine::Engine;
use tidegate_policy::Principal;
use tidegate_runtime::{Clock, RandomnessError, Shutdown, SystemClock};
use tokio_util::task::TaskTracker;

use crate::checks::Origins;
use crate::error::ServeError;
use crate::guesses::Guesses;
use crate::hooks::Hooks;
use crate::login::Codes;
use crate::restart::Restarter;
use crate::server::{Server, open_port};
use crate::token::{LocalToken, random_text};
use crate::ws::devices::Devices;
use crate::ws::hub::Hub;

/// The release that answers.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a gateway that stays needs.
pub struct ServerOptions {
    /// The port, open already: see [`open_port`](crate::open_port).
    pub listener: TcpListener,
    /// The file of the home's token; made if it is not there.
    pub token: PathBuf,
    /// Names under which the gateway is reached besides its own address.
    pub hosts: Vec<String>,
    /// Asked for by `POST /api/v1/stop`.
    pub stop: Shutdown,
    /// Asked for by whoever changed the configuration.
    pub restart: Restarter,
}

/// Opens the port with the page, and the control socket. The caller holds the home's lock.
pub fn serve(engine: Engine, options: ServerOptions, socket: &Path) -> Result<(Server, Server), ServeError> {
    let ServerOptions { listener, token, hosts, stop, restart } = options;
    let token = Some(LocalToken::load_or_create(&token)?);
    let (clock, restart) = (Arc::new(SystemClock), Some(restart));
    let gateway = Gateway::new(engine, Options { token, clock, page: true, hosts, stop, restart });
    Ok((gateway.serve_on(listener)?, gateway.control(socket)?))
}

/// Opens the control socket alone: where others join a command that holds the home for a moment.
pub fn control(engine: Engine, socket: &Path) -> Result<Server, ServeError> {
    let options = Options {
        token: None,
        clock: Arc::new(SystemClock),
        page: false,
        hosts: Vec::new(),
        stop: Shutdown::new(),
        restart: None,
    };
    Gateway::new(engine, options).control(socket)
}

/// How a gateway is to work.
pub struct Options {
    /// Without one nobody can enter through the port; the control socket needs none.
    pub token: Option<LocalToken>,
    pub clock: Arc<dyn Clock>,
    /// Whether `/` shows the page.
    pub page: bool,
    /// Names under which the gateway is reached besides its own address.
    pub hosts: Vec<String>,
    /// Asked for by `POST /api/v1/stop`.
    pub stop: Shutdown,
    /// Asked for by whoever changed the configuration; `None` where the process goes soon anyway.
    pub restart: Option<Restarter>,
}

/// A gateway. It listens once [`Gateway::serve`] or [`Gateway::control`] was called; clones are the same gateway.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) options: Options,
    pub(crate) codes: Codes,
    /// Who sends wrong secrets.
    pub(crate) guesses: Guesses,
    pub(crate) started_at: i64,
    /// Where the port is, once it is open.
    address: OnceLock<SocketAddr>,
    /// The webhooks, if any are taken.
    pub(crate) hooks: Option<Hooks>,
    /// The folder of another page, if one is configured.
    pub(crate) control_ui: Option<PathBuf>,
    /// What goes on without the connection that began it.
    pub(crate) tasks: TaskTracker,
    /// Set when nobody is waited for any more: whatever is left of connections ends in the middle.
    pub(crate) cut: Shutdown,
    /// Set on the way out when the next gateway follows at once: in how many milliseconds it is expected.
    pub(crate) back_in_ms: OnceLock<u64>,
    /// Who is connected over sockets.
    pub(crate) hub: Arc<Hub>,
}

/// Through which door a request came.
#[derive(Clone)]
pub(crate) enum Entrance {
    Port(Arc<Origins>),
    /// The file's mode let it in.
    Control,
}

/// What a handler sees.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entrance: Entrance,
    /// Set when this listener closes: streams without an end of their own end then.
    pub(crate) closing: Shutdown,
}

/// The devices of the home, and nobody connected yet.
fn hub_of(engine: &Engine, options: &Options) -> Hub {
    // Without a token of the home nobody is given one that outlives this process.
    let passing = || {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map(|()| key).unwrap_or_default()
    };
    let key = options.token.as_ref().map_or_else(passing, LocalToken::device_key);
    let boot = random_text::<12>().unwrap_or_else(|_| options.clock.now_ms().to_string());
    Hub::new(boot, Devices::load(&engine.home().credentials().join("devices.json"), key))
}

impl Gateway {
    pub fn new(engine: Engine, options: Options) -> Self {
        let started_at = options.clock.now_ms();
        let hooks = Hooks::of(engine.settings().hooks());
        let control_ui = engine.settings().control_ui().map(|folder| engine.home().root().join(folder));
        let hub = Arc::new(hub_of(&engine, &options));
        let shared = Shared {
            engine,
            options,
            codes: Codes::default(),
            guesses: Guesses::default(),
            started_at,
            address: OnceLock::new(),
            hooks,
            control_ui,
            tasks: TaskTracker::new(),
            cut: Shutdown::new(),
            back_in_ms: OnceLock::new(),
            hub,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Opens the port. Port 0 takes any free one; [`Server::address`] says which.
    pub async fn serve(&self, address: SocketAddr) -> Result<Server, ServeError> {
        self.serve_on(open_port(address).await?)
    }

    /// Serves on a port that is open already.
    pub fn serve_on(&self, listener: TcpListener) -> Result<Server, ServeError> {
        let server = Server::port(Arc::clone(&self.shared), listener)?;
        if let Some(address) = server.address() {
            let _ = self.shared.address.set(address);
        }
        Ok(server)
    }

    /// How many are connected over sockets.
    pub fn clients(&self) -> usize {
        self.shared.hub.count()
    }

    /// Opens the control socket. The caller holds the home's lock: a file that is there already is stale.
    pub fn control(&self, path: &Path) -> Result<Server, ServeError> {
        Server::control(Arc::clone(&self.shared), path)
    }
}

impl Shared {
    pub(crate) fn now(&self) -> i64 {
        self.options.clock.now_ms()
    }

    /// Where a browser on this computer finds the page.
    pub(crate) fn origin(&self) -> Option<String> {
        let mut address = *self.address.get()?;
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        Some(format!("http://{address}"))
    }

    pub(crate) fn login_link(&self) -> Result<Option<String>, RandomnessError> {
        let Some(origin) = self.origin() else { return Ok(None) };
        let code = self.codes.make(self.now())?;
        Ok(Some(format!("{origin}/login?code={code}")))
    }
}

impl Gate {
    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Whoever entered owns the home: every door asks for a proof of that.
    pub(crate) fn principal(&self) -> Principal {
        Principal::local_owner(self.engine().tenant().clone())
    }
}
