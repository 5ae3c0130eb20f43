//! A home with a gateway in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::{Engine, EngineEvent, Events, Home, Options, RunChange, Settings};
use tidegate_gateway::{Gateway, LocalToken, Server};
use tidegate_protocol::RunState;
use tidegate_runtime::{Clock, Shutdown, SystemClock};
use tidegate_testkit::client::{Client, Token};
use tidegate_testkit::paced::Paced;
use tidegate_testkit::stores::{Location, OpenStore};

/// Longer than anything here may take.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A clock the test can move.
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn pass(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) gateway: Gateway,
    pub(crate) port: Server,
    pub(crate) control: Server,
    pub(crate) token: String,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) stop: Shutdown,
    pub(crate) socket: PathBuf,
    pub(crate) models: Paced,
    pub(crate) _folder: TempDir,
}

impl House {
    /// Answers come as fast as they can.
    pub(crate) async fn open() -> Self {
        let house = Self::held().await;
        house.models.open();
        house
    }

    /// The same with a configuration.
    pub(crate) async fn configured(config: &serde_json::Value) -> Self {
        let house = Self::with(Some(config)).await;
        house.models.open();
        house
    }

    /// Answers come piece by piece, as the test lets them.
    pub(crate) async fn held() -> Self {
        Self::with(None).await
    }

    async fn with(said: Option<&serde_json::Value>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(said) = said {
            std::fs::write(folder.path().join("config.json5"), said.to_string()).unwrap();
        }
        let home = Home::at(folder.path());
        let lock = home.lock(Duration::ZERO, "test").await.unwrap();
        let place = Location::Sqlite { path: home.database() };
        let OpenStore::Sqlite(store) = place.open(1).await.unwrap() else { unreachable!("a SQLite place") };
        let config = ConfigFile::new(home.config_file(), home.revisions());
        let settings = Settings::new(&config.load(&Env::of_this_process()).unwrap());
        let tenant = settings.scope(None).unwrap().tenant;
        let models = Paced::held();
        let options = Options { models: Arc::new(models.clone()), ..Options::passing(tenant, settings) };
        let engine = Engine::start(lock, Arc::new(store), Arc::new(SystemClock), options).await.unwrap();
        let token = LocalToken::load_or_create(&home.local_token()).unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(SystemClock.now_ms())));
        let stop = Shutdown::new();
        let options = tidegate_gateway::Options {
            token: Some(token.clone()),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            page: true,
            hosts: Vec::new(),
            stop: stop.clone(),
        };
        let gateway = Gateway::new(engine.clone(), options);
        let port = gateway.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let socket = home.control_socket();
        let control = gateway.control(&socket).unwrap();
        let token = token.expose().to_owned();
        Self { engine, gateway, port, control, token, clock, stop, socket, models, _folder: folder }
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.port.address().unwrap()
    }

    /// A caller through the control socket.
    pub(crate) fn client(&self) -> Client {
        Client::control(&self.socket)
    }

    /// A caller through the port.
    pub(crate) fn remote(&self) -> Client {
        Client::http(self.address(), Token::new(&self.token))
    }

    /// Returns once nobody is connected over a socket, and so nobody listens to the engine for them.
    pub(crate) async fn nobody_connected(&self) {
        let gone = async {
            while self.gateway.clients() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, gone).await.expect("everybody leaves");
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

/// Waits for a change on the bus.
pub(crate) async fn until(events: &mut Events, wanted: impl Fn(&RunChange) -> bool) -> RunChange {
    let waiting = async {
        loop {
            if let Some(Ok(EngineEvent::Run(change))) = events.next().await
                && wanted(&change)
            {
                return change;
            }
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("the change comes")
}

pub(crate) fn is(state: &RunState) -> impl Fn(&RunChange) -> bool {
    move |change| change.state == *state
}
