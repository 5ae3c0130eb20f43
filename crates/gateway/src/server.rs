//! A listener: takes connections, each bounded in number, size and time, until it is told to stop.

use std::net::{SocketAddr, TcpListener as OpenPort};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidegate_runtime::{Shutdown, Task, fault, socket, spawn};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::allowance::{Allowance, Bounded};
use crate::checks::Origins;
use crate::error::ServeError;
use crate::gate::{Entrance, Gate, Shared};
use crate::routes::router;
use crate::ws::ComesFrom;

/// Connections at once; more wait in the system's queue.
const CONNECTIONS: usize = 512;
/// How long the head of a request may take, and a connection may idle.
const HEAD_PATIENCE: Duration = Duration::from_secs(20);
/// The largest head of a request.
const LARGEST_HEAD: usize = 64 * 1024;
/// How long somebody who connected may take to ask, when the listener closes.
const FIRST_WORDS: Duration = Duration::from_millis(250);
/// After the system could not give a connection (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener that is open. Dropping it stops it.
pub struct Server {
    address: Option<SocketAddr>,
    /// The socket's file, taken away when it stops.
    path: Option<PathBuf>,
    stop: Shutdown,
    listening: Mutex<Option<Task<()>>>,
    connections: TaskTracker,
    shared: Arc<Shared>,
}

/// What a connection needs.
#[derive(Clone)]
struct Hall {
    router: Router,
    stop: Shutdown,
    cut: Shutdown,
    connections: TaskTracker,
    seats: Arc<Semaphore>,
}

/// Opens a port; 0 takes any free one. Whoever connects waits until it is served.
pub async fn open_port(wanted: SocketAddr) -> Result<OpenPort, ServeError> {
    let opened = TcpListener::bind(wanted).await.and_then(TcpListener::into_std);
    opened.map_err(|cause| ServeError::port(wanted, cause))
}

impl Server {
    pub(crate) fn port(shared: Arc<Shared>, listener: OpenPort) -> Result<Self, ServeError> {
        let unusable = |cause| ServeError::Port { address: ([0, 0, 0, 0], 0).into(), cause };
        let address = listener.local_addr().map_err(unusable)?;
        let listener = TcpListener::from_std(listener).map_err(unusable)?;
        let origins = Origins::new(address, &shared.options.hosts);
        let mut server = Self::new(shared);
        server.address = Some(address);
        let hall = server.hall(Entrance::Port(Arc::new(origins)));
        server.listen(spawn("gateway.port", async move { take_from_port(&hall, &listener).await }));
        Ok(server)
    }

    pub(crate) fn control(shared: Arc<Shared>, path: &Path) -> Result<Self, ServeError> {
        let listener =
            socket::bind(path).map_err(|cause| ServeError::Socket { path: path.to_owned(), cause })?;
        let mut server = Self::new(shared);
        server.path = Some(path.to_owned());
        let hall = server.hall(Entrance::Control);
        server.listen(spawn("gateway.control", async move { take_from_socket(&hall, &listener).await }));
        Ok(server)
    }

    fn new(shared: Arc<Shared>) -> Self {
        Self {
            address: None,
            path: None,
            stop: Shutdown::new(),
            listening: Mutex::default(),
            connections: TaskTracker::new(),
            shared,
        }
    }

    fn hall(&self, entrance: Entrance) -> Hall {
        let gate = Gate { shared: Arc::clone(&self.shared), entrance, closing: self.stop.clone() };
        Hall {
            router: router(gate),
            stop: self.stop.clone(),
            cut: self.shared.cut.clone(),
            connections: self.connections.clone(),
            seats: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }

    fn listen(&self, task: Task<()>) {
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Where the port is; `None` for the control socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where a browser on this computer finds it; the control socket's file if it has no port.
    pub fn url(&self) -> String {
        let file = || self.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        self.shared.origin().unwrap_or_else(file)
    }

    /// An address that logs a browser in once.
    pub fn login_link(&self) -> Result<String, ServeError> {
        self.shared.login_link()?.ok_or(ServeError::NoPort)
    }

    /// Takes no new connection: whoever tries is refused or hung up on. Answers under way go on, but streams without an
    /// end of their own end, and idle connections close.
    pub fn stop_listening(&self) {
        // First the name, so that whoever comes now finds nobody instead of a socket that hangs up.
        if let Some(path) = &self.path
            && !self.stop.is_requested()
        {
            let _ = std::fs::remove_file(path);
        }
        fault::point("gateway.stop.unlinked");
        self.stop.request();
    }

    /// On the way out: tells clients that the next gateway follows, and when.
    pub fn comes_back_in(&self, expected: Duration) {
        let _ = self.shared.back_in_ms.set(u64::try_from(expected.as_millis()).unwrap_or(u64::MAX));
    }

    /// Ends what is left of connections, in the middle of whatever they do.
    pub fn cut_off(&self) {
        self.shared.cut.request();
    }

    /// Returns once the listener is closed and the last answer was read to its end, or its reader went away. The
    /// caller sets the deadline.
    pub async fn drained(&self) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = listening {
            let _ = task.join().await;
        }
        self.connections.close();
        self.connections.wait().await;
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

async fn take_from_port(hall: &Hall, listener: &TcpListener) {
    while let Some(seat) = hall.seat().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hall.stop.requested() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                let _ = stream.set_nodelay(true);
                hall.receive(stream, Some(ComesFrom(from.ip())), seat);
            }
            Err(error) => hall.could_not_accept(&error).await,
        }
    }
}

async fn take_from_socket(hall: &Hall, listener: &UnixListener) {
    while let Some(seat) = hall.seat().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hall.stop.requested() => return,
        };
        match accepted {
            Ok((stream, _)) => hall.receive(stream, None, seat),
            Err(error) => hall.could_not_accept(&error).await,
        }
    }
}

impl Hall {
    /// Waits for a free seat; `None` when it closes.
    async fn seat(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = self.stop.requested() => None,
            seat = Arc::clone(&self.seats).acquire_owned() => seat.ok(),
        }
    }

    async fn could_not_accept(&self, error: &std::io::Error) {
        tracing::warn!(%error, "a connection could not be taken");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    fn receive<S>(&self, stream: S, from: Option<ComesFrom>, seat: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(LARGEST_HEAD);
        let allowance = Allowance::unbounded();
        let stream = Bounded::new(stream, allowance.clone());
        let router = TowerToHyperService::new(self.router.clone());
        let asked = Arc::new(Notify::new());
        let asks = Arc::clone(&asked);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            asks.notify_one();
            if let Some(from) = from {
                request.extensions_mut().insert(from);
            }
            request.extensions_mut().insert(allowance.clone());
            router.call(request)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let (stop, cut) = (self.stop.clone(), self.cut.clone());
        let task = async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.requested() => {
                    // Who has just connected is heard first: closed at once, it would take that for a refusal.
                    let heard = tokio::select! {
                        ended = connection.as_mut() => Some(ended),
                        _ = timeout(FIRST_WORDS, asked.notified()) => None,
                    };
                    if let Some(ended) = heard {
                        ended
                    } else {
                        connection.as_mut().graceful_shutdown();
                        tokio::select! {
                            ended = connection.as_mut() => ended,
                            () = cut.requested() => Ok(()),
                        }
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(seat);
        };
        spawn("gateway.connection", self.connections.track_future(task));
    }
}
