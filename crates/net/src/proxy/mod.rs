//! The way out for programs in a sandbox: an HTTP proxy on a Unix socket.
//!
//! It takes `CONNECT host:port` and requests with a whole address (`GET http://host/…`). Every host is judged by the
//! list it was given and by the [`Guard`], resolved by the guard, and connected to at the addresses that were judged.
//! Keys that programs may use and not see are put into plain requests here ([`ProxyCredential`]); inside a tunnel
//! nothing can be put, since it is encrypted from end to end. Refusals say which host and which key of the
//! configuration; nothing that is logged or answered has a query or a key in it.

mod answer;
mod forward;
mod tunnel;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_policy::{HostLevel, HostPattern, HostRules};
use tidegate_runtime::{Shutdown, Task, socket, spawn};
use tidegate_secrets::Secret;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client::Client;
use crate::guard::Guard;

/// The level of the rules that the list of hosts is; its key is `sandbox.allowHosts`.
const LEVEL: &str = "sandbox";
/// After the system could not give a connection (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Refused hosts that are told; a program that tries more of them is only counted.
const TOLD_HOSTS: usize = 100;

/// What may be reached through a proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    /// `example.com`, `*.example.com` for what is below it, `!example.com` for what may not be reached after all.
    pub hosts: Vec<String>,
    pub guard: Guard,
    pub credentials: Vec<ProxyCredential>,
}

/// A key that requests to a host get from us. The program that makes them never sees it.
#[derive(Debug, Clone)]
pub struct ProxyCredential {
    /// Its name in `egress.credentials`.
    pub name: String,
    /// One host, no pattern.
    pub host: String,
    pub header: String,
    pub value: Secret,
    /// Whether a request to `http://host/` is made over https, so that the key travels encrypted.
    pub https: bool,
}

/// How much a program may ask of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// At once; more wait.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// How long a head may take, and a connection may wait for the next.
    pub head_patience: Duration,
    /// Bytes of the body of a plain request. Tunnels have no such limit.
    pub body: usize,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For a connection to come about.
    pub connect: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: 64 << 10,
            head_patience: Duration::from_secs(20),
            body: 16 << 20,
            idle: Duration::from_mins(2),
            connect: Duration::from_secs(10),
        }
    }
}

/// How often programs were let out and how often not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounts {
    pub passed: u64,
    pub refused: u64,
}

/// A proxy that listens. Dropping it ends every connection through it and takes its socket away.
pub struct EgressProxy {
    path: PathBuf,
    stop: Shutdown,
    desk: Arc<Desk>,
    _listening: Task<()>,
}

/// Told a host that was refused, and why.
pub type TurnedAway = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What every connection needs.
struct Desk {
    client: Client,
    credentials: Vec<Credential>,
    limits: ProxyLimits,
    passed: AtomicU64,
    refused: AtomicU64,
    /// Hosts whose refusal was told.
    told: Mutex<BTreeSet<String>>,
    turned_away: Option<TurnedAway>,
    stop: Shutdown,
}

/// A credential that was checked.
struct Credential {
    host: HostPattern,
    header: hyper::header::HeaderName,
    value: hyper::header::HeaderValue,
    https: bool,
}

/// A seat that is free again when the last part of a connection is gone.
type Seat = Arc<OwnedSemaphorePermit>;

impl EgressProxy {
    /// Listens on a socket that only its owner can connect to. Needs a running tokio.
    pub fn listen(socket: &Path, rules: ProxyRules) -> io::Result<Self> {
        Self::listen_within(socket, rules, ProxyLimits::default())
    }

    /// The same, and tells each host that it refuses once.
    pub fn listen_telling(socket: &Path, rules: ProxyRules, turned_away: TurnedAway) -> io::Result<Self> {
        Self::open(socket, rules, ProxyLimits::default(), Some(turned_away))
    }

    /// The same with other limits.
    pub fn listen_within(socket: &Path, rules: ProxyRules, limits: ProxyLimits) -> io::Result<Self> {
        Self::open(socket, rules, limits, None)
    }

    fn open(
        socket: &Path,
        rules: ProxyRules,
        limits: ProxyLimits,
        turned_away: Option<TurnedAway>,
    ) -> io::Result<Self> {
        let ProxyRules { hosts, guard, credentials } = rules;
        let level = HostLevel::of_list(LEVEL, &hosts).map_err(|bad| invalid(bad.to_string()))?;
        let guard = guard.narrowed_by(&HostRules::default().and(level));
        let stop = Shutdown::new();
        let desk = Arc::new(Desk {
            client: Client::new(limits.connect).guarded_by(guard),
            credentials: credentials.iter().map(Credential::read).collect::<Result<_, _>>()?,
            limits,
            passed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            told: Mutex::default(),
            turned_away,
            stop: stop.clone(),
        });
        let listener = socket::bind(socket)?;
        let listening = spawn("egress.proxy", take(listener, Arc::clone(&desk)));
        Ok(Self { path: socket.to_owned(), stop, desk, _listening: listening })
    }

    pub fn counts(&self) -> ProxyCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        ProxyCounts { passed: count(&self.desk.passed), refused: count(&self.desk.refused) }
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        self.stop.request();
    }
}

impl Credential {
    fn read(credential: &ProxyCredential) -> io::Result<Self> {
        let name = &credential.name;
        let bad = |what: &str| invalid(format!("egress.credentials.{name}: {what}"));
        let host = HostPattern::parse(&credential.host).ok();
        let host = host.filter(|host| matches!(host, HostPattern::Exactly(_)));
        let mut value = hyper::header::HeaderValue::try_from(credential.value.expose())
            .map_err(|_| bad("the value cannot be sent as a header"))?;
        value.set_sensitive(true);
        Ok(Self {
            host: host.ok_or_else(|| bad("`host` is not one host"))?,
            header: hyper::header::HeaderName::try_from(credential.header.as_str())
                .map_err(|_| bad("`header` is no name of a header"))?,
            value,
            https: credential.https,
        })
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

async fn take(listener: UnixListener, desk: Arc<Desk>) {
    let seats = Arc::new(Semaphore::new(desk.limits.connections));
    loop {
        let accepted = tokio::select! {
            biased;
            () = desk.stop.requested() => return,
            accepted = next(&listener, &seats) => accepted,
        };
        match accepted {
            Ok((stream, seat)) => receive(stream, seat, Arc::clone(&desk)),
            Err(error) => {
                tracing::warn!(%error, "a connection to the egress proxy could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn next(listener: &UnixListener, seats: &Arc<Semaphore>) -> io::Result<(UnixStream, Seat)> {
    let seat = Arc::clone(seats).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, Arc::new(seat)))
}

fn receive(stream: UnixStream, seat: Seat, desk: Arc<Desk>) {
    let ProxyLimits { head, head_patience, .. } = desk.limits;
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_patience).max_buf_size(head);
    let stop = desk.stop.clone();
    let service = service_fn(move |request| {
        let (desk, seat) = (Arc::clone(&desk), Arc::clone(&seat));
        async move { Ok::<_, std::convert::Infallible>(desk.answer(request, seat).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    spawn("egress.connection", async move {
        let ended = tokio::select! {
            ended = connection => ended,
            () = stop.requested() => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the egress proxy ended early");
        }
    });
}

impl Desk {
    /// Counts a refusal, and tells the first one of each host.
    fn note_refusal(&self, host: &str, why: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_HOSTS && told.insert(host.to_owned()) {
            drop(told);
            tracing::warn!(host, reason = why, "the egress proxy refused a host");
            if let Some(turned_away) = &self.turned_away {
                turned_away(host, why);
            }
        }
    }
}
