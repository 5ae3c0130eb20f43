//! Calling a server.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_secrets::Secret;

use crate::error::NetError;
use crate::guard::{Address, Guard, without_query};

/// Where an address came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An operator wrote it: it may be anywhere, also on this machine.
    Configured,
    /// A model, a page or a message chose it: it must be public, and no proxy of ours speaks for it.
    Chosen,
    /// Somebody outside named it as the place where a credential of its own is shown. It is held like what is chosen, but
    /// not searched for secrets: one of them is what is sent.
    Credential,
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
    Head,
    Post,
    Put,
    Patch,
    Delete,
    /// What a browser asks before it lets a page call another server.
    Options,
}

impl Method {
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Options];

    /// Reads a name, whatever its case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }

    /// Whether it only asks.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }

    fn of_http(self) -> reqwest::Method {
        match self {
            Self::Get => reqwest::Method::GET,
            Self::Head => reqwest::Method::HEAD,
            Self::Post => reqwest::Method::POST,
            Self::Put => reqwest::Method::PUT,
            Self::Patch => reqwest::Method::PATCH,
            Self::Delete => reqwest::Method::DELETE,
            Self::Options => reqwest::Method::OPTIONS,
        }
    }
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
    /// Judges what was chosen outside.
    guard: Guard,
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
        Self { inner: Arc::default(), connect, guard: Guard::default() }
    }

    /// The same with another guard.
    #[must_use]
    pub fn guarded_by(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Sends a request; the answer is at its headers, whatever its status. Redirects are answers like others.
    pub async fn call(&self, call: Call) -> Result<Reply, NetError> {
        let Call { origin, method, url, headers, body, timeouts } = call;
        let (http, address) = match origin {
            Origin::Configured => {
                let address = configured(&url)?;
                (self.inner(&host_of(&address))?.clone(), address)
            }
            Origin::Chosen | Origin::Credential => {
                let address = Address::read(&url)?;
                self.guard.screen(&address)?;
                if origin == Origin::Chosen {
                    self.guard.scan_call(&address, &headers, &body).await?;
                }
                let at = self.guard.check(&address).await?;
                (self.pinned(&address, &at)?, address.url().clone())
            }
        };
        let host = host_of(&address);
        let mut request = http.request(method.of_http(), address);
        for (name, value) in headers.iter() {
            let bad = || NetError::BadAddress(format!("{host}: the header {name:?} cannot be sent"));
            let name = reqwest::header::HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = reqwest::header::HeaderValue::try_from(value.expose()).map_err(|_| bad())?;
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
            let client = self.builder().pool_idle_timeout(Duration::from_secs(50)).build();
            client.map_err(NetError::cause)
        });
        made.as_ref().map_err(|cause| NetError::Unreachable { host: host.to_owned(), cause: cause.clone() })
    }

    /// A client for one call that can reach these addresses only. It shares no connection with anybody: a connection
    /// that was judged for one call is not the next one's.
    fn pinned(&self, address: &Address, at: &[SocketAddr]) -> Result<Http, NetError> {
        let unreachable =
            |error| NetError::Unreachable { host: address.host().to_owned(), cause: NetError::cause(error) };
        self.pinned_builder(address, at).build().map_err(unreachable)
    }

    pub(crate) fn pinned_builder(&self, address: &Address, at: &[SocketAddr]) -> reqwest::ClientBuilder {
        let builder = self.builder().no_proxy().referer(false).pool_max_idle_per_host(0);
        builder.resolve_to_addrs(address.host(), at).dns_resolver(NoResolver)
    }

    fn builder(&self) -> reqwest::ClientBuilder {
        // A second installation fails, and is the same one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Http::builder()
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
    }
}

/// What a pinned client asks for a name that was not judged: nothing answers.
struct NoResolver;

impl reqwest::dns::Resolve for NoResolver {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(std::future::ready(Err("the name was not judged".into())))
    }
}

fn configured(url: &str) -> Result<reqwest::Url, NetError> {
    let address = reqwest::Url::parse(url).ok().filter(reqwest::Url::has_host);
    let address = address.filter(|url| matches!(url.scheme(), "http" | "https"));
    address.ok_or_else(|| NetError::BadAddress(without_query(url)))
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

    /// Every header in the order it came; values that are not text are left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.response.headers().iter();
        headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
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

pub(crate) fn refused(error: reqwest::Error, host: String, connect: Duration) -> NetError {
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
