//! Calling a server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_secrets::Secret;

use crate::error::NetError;

/// Where an address came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An operator wrote it: it may be anywhere, also on this machine.
    Configured,
}

/// How long to wait. There is no limit on a whole answer: a stream may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Without a byte, before the headers and between chunks alike.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { idle: Duration::from_mins(2) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// Headers, some of them secret.
#[derive(Debug, Clone, Default)]
pub struct Headers(Vec<(String, Secret)>);

impl Headers {
    /// Adds one, or replaces the one of that name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.set_secret(name, &Secret::new(value));
    }

    pub fn set_secret(&mut self, name: &str, value: &Secret) {
        let name = name.to_ascii_lowercase();
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value.clone()));
    }

    /// In the order they were set, names in lower case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    pub origin: Origin,
    pub method: Method,
    pub url: String,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub timeouts: Timeouts,
}

/// Clones share connections. Nothing is loaded before the first call: certificates cost time at every start.
#[derive(Clone)]
pub struct Client {
    inner: Arc<OnceLock<Result<Http, String>>>,
    connect: Duration,
}

#[expect(clippy::disallowed_types, reason = "the one place that has it")]
type Http = reqwest::Client;

impl Default for Client {
    fn default() -> Self {
        Self::new(Duration::from_secs(10))
    }
}

impl Client {
    /// A client that gives a connection this long to come about.
    pub fn new(connect: Duration) -> Self {
        Self { inner: Arc::default(), connect }
    }

    /// Sends a request; the answer is at its headers, whatever its status.
    pub async fn call(&self, call: Call) -> Result<Reply, NetError> {
        let Call { origin: Origin::Configured, method, url, headers, body, timeouts } = call;
        let address = reqwest::Url::parse(&url).ok().filter(reqwest::Url::has_host);
        let Some(address) = address.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(NetError::BadAddress(without_query(&url)));
        };
        let host = host_of(&address);
        let method = match method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
        };
        let mut request = self.inner(&host)?.request(method, address);
        for (name, value) in headers.iter() {
            let mut value = reqwest::header::HeaderValue::try_from(value.expose()).map_err(|_| {
                NetError::BadAddress(format!("{host}: the header {name} has a line break in it"))
            })?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let patience = timeouts.idle.max(self.connect);
        let sent = tokio::time::timeout(patience, request.body(body).send());
        match sent.await {
            Err(_) => Err(NetError::Idle { host, seconds: patience.as_secs() }),
            Ok(Err(error)) => Err(refused(error, host, self.connect)),
            Ok(Ok(response)) => Ok(Reply { response, host, idle: timeouts.idle }),
        }
    }

    fn inner(&self, host: &str) -> Result<&Http, NetError> {
        let made = self.inner.get_or_init(|| {
            // A second installation fails, and is the same one.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let client = Http::builder()
                .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(self.connect)
                .tcp_nodelay(true)
                .pool_idle_timeout(Duration::from_secs(50))
                .redirect(reqwest::redirect::Policy::none())
                .build();
            client.map_err(NetError::cause)
        });
        made.as_ref().map_err(|cause| NetError::Unreachable { host: host.to_owned(), cause: cause.clone() })
    }
}

/// An answer that is being read. Dropping it closes the connection.
pub struct Reply {
    response: reqwest::Response,
    host: String,
    idle: Duration,
}

impl Reply {
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + Send + use<>>, NetError> {
        let host = || self.host.clone();
        match tokio::time::timeout(self.idle, self.response.chunk()).await {
            Err(_) => Err(NetError::Idle { host: host(), seconds: self.idle.as_secs() }),
            Ok(Err(error)) => {
                Err(NetError::Broken { host: self.host.clone(), cause: NetError::cause(error) })
            }
            Ok(Ok(chunk)) => Ok(chunk),
        }
    }

    /// The whole body, if it is not too large.
    pub async fn bytes(mut self, limit: usize) -> Result<Vec<u8>, NetError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.as_ref().len() > limit {
                return Err(NetError::TooLarge { host: self.host, limit });
            }
            all.extend_from_slice(chunk.as_ref());
        }
        Ok(all)
    }
}

fn refused(error: reqwest::Error, host: String, connect: Duration) -> NetError {
    if error.is_connect() && error.is_timeout() {
        return NetError::ConnectTimeout { host, seconds: connect.as_secs() };
    }
    if error.is_connect() {
        if NetError::is_unresolved(&error) {
            return NetError::Unresolved(host);
        }
        return NetError::Unreachable { host, cause: NetError::cause(error) };
    }
    NetError::Broken { host, cause: NetError::cause(error) }
}

fn host_of(url: &reqwest::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// What may be shown of an address: keys travel in queries and before the host.
fn without_query(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match (shown.find("://"), shown.find('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}://{}", &shown[..scheme], &shown[at + 1..]),
        _ => shown.to_owned(),
    }
}
