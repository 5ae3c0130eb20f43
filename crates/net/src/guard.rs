//! The guard on addresses that a model, a page or a message chose.
//!
//! An address is read once by the rules of browsers ([`Address`]), its host is judged as a name, then resolved by us,
//! and every address it resolves to is judged. The connection goes to those addresses and no others: whoever answers
//! the next look-up differently gains nothing. What an operator allowed by name passes.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tidegate_policy::HostRules;

use crate::address::{class_of, class_of_name};
use crate::error::NetError;
use crate::leak::LeakScan;

/// How long a name may take to resolve.
const LOOKUP: Duration = Duration::from_secs(10);
/// Addresses that are kept of one name.
const MOST_ADDRESSES: usize = 32;
const LONGEST: usize = 8 << 10;

/// An address that somebody outside chose, in the form in which it will be called.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    host: String,
    port: u16,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown())
    }
}

impl Address {
    /// Reads an address. Odd spellings of a host end here: decimal, octal, full-width and short forms become the plain
    /// address, zones and user names are refused.
    pub fn read(text: &str) -> Result<Self, NetError> {
        let bad = || NetError::BadAddress(without_query(text));
        if text.len() > LONGEST || text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(bad());
        }
        let because = |why: &str| NetError::BadAddress(format!("{} ({why})", without_query(text)));
        let unreadable = || if text.contains("://") { bad() } else { because("without https:// before it") };
        let url = Url::parse(text.trim()).map_err(|_| unreadable())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(because("only http and https can be called"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(because("with a user name in it"));
        }
        Self::of(url).ok_or_else(bad)
    }

    /// Reads an address that an operator wrote, user name and all.
    pub fn read_configured(text: &str) -> Result<Self, NetError> {
        let bad = || NetError::BadAddress(without_query(text));
        Self::of(Url::parse(text).map_err(|_| bad())?).ok_or_else(bad)
    }

    fn of(mut url: Url) -> Option<Self> {
        let host = url.host_str()?.trim_end_matches('.').to_owned();
        // A dot at the end changes who is asked, and what certificates and pins compare.
        url.set_host(Some(&host)).ok()?;
        url.set_fragment(None);
        let port = url.port_or_known_default().filter(|port| *port != 0)?;
        Some(Self { url, host: host.trim_matches(['[', ']']).to_owned(), port })
    }

    /// Reads an address that stands on a page or in an answer of this one.
    pub fn join(&self, text: &str) -> Result<Self, NetError> {
        let bad = || NetError::BadAddress(without_query(text));
        if text.chars().any(char::is_control) {
            return Err(bad());
        }
        Self::read(self.url.join(text).map_err(|_| bad())?.as_str())
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// In lower case, without a port and brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether both are at the same server by the rules of browsers.
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.url.scheme(), &self.host, self.port) == (other.url.scheme(), &other.host, other.port)
    }

    /// What may be shown in an error.
    pub fn shown(&self) -> String {
        without_query(self.as_str())
    }

    /// The host if it is an address by itself.
    fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The same place, encrypted: at the usual port for that if it was at the usual port before.
    pub(crate) fn encrypted(&self) -> Self {
        let mut url = self.url.clone();
        // Both are schemes of the web, between which the change is always possible.
        let _ = url.set_scheme("https");
        let port = url.port_or_known_default().unwrap_or(self.port);
        Self { url, host: self.host.clone(), port }
    }
}

/// Resolves names.
#[async_trait::async_trait]
pub trait Resolver: Send + Sync {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The system's own.
struct System;

#[async_trait::async_trait]
impl Resolver for System {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Judges addresses. Without anything said it lets only public ones through.
#[derive(Clone)]
pub struct Guard {
    resolver: Arc<dyn Resolver>,
    /// `host:port` in lower case.
    allowed: Arc<BTreeSet<String>>,
    /// Of the hosts that remain, those that may be reached.
    rules: Arc<HostRules>,
    /// What may not leave.
    leaks: LeakScan,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            resolver: Arc::new(System),
            allowed: Arc::default(),
            rules: Arc::default(),
            leaks: LeakScan::default(),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Guard");
        shown.field("allowed", &self.allowed).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// An entry of the list of private addresses that are allowed is not a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host and a port, such as \"wiki.lan:8080\" or \"[fd00::1]:80\"")]
pub struct BadAllowance(pub String);

impl Guard {
    /// Lets these through as well, each a `host:port` that an operator wrote down: a name means that name whatever it
    /// resolves to, an address also every name that resolves to it. There is no form for "everything".
    pub fn allowing<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, BadAllowance> {
        let read = |entry: S| {
            let entry = entry.as_ref();
            let bad = || BadAllowance(entry.to_owned());
            let port = entry.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let address = Address::read(&format!("http://{entry}/")).map_err(|_| bad())?;
            if port != Some(address.port) || entry.contains(['/', '?', '#', '*']) {
                return Err(bad());
            }
            Ok(place(&address.host, address.port))
        };
        let allowed = entries.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { allowed: Arc::new(allowed), ..Self::default() })
    }

    /// Asks this resolver instead of the system's.
    #[must_use]
    pub fn resolving_with(self, resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Lets through only what these rules leave of it, what an operator allowed by name included.
    #[must_use]
    pub fn narrowed_by(self, rules: &HostRules) -> Self {
        if rules.is_empty() {
            return self;
        }
        let rules = HostRules::clone(&self.rules).narrowed_by(rules);
        Self { rules: Arc::new(rules), ..self }
    }

    /// Lets nothing out that has one of these secrets in it.
    #[must_use]
    pub fn looking_for(self, leaks: &LeakScan) -> Self {
        Self { leaks: leaks.clone(), ..self }
    }

    pub(crate) fn leaks(&self) -> &LeakScan {
        &self.leaks
    }

    /// Judges what can be judged without asking anybody: spellings, names, literal addresses and the rules about hosts.
    pub fn screen(&self, address: &Address) -> Result<(), NetError> {
        self.screen_class(address)?;
        Ok(self.rules.judge(&address.host)?)
    }

    fn screen_class(&self, address: &Address) -> Result<(), NetError> {
        if self.allowed.contains(&place(&address.host, address.port)) {
            return Ok(());
        }
        let class = match address.literal() {
            Some(literal) => class_of(literal),
            None => class_of_name(&address.host),
        };
        class.map_or(Ok(()), |class| {
            Err(NetError::Forbidden { host: address.host.clone(), address: None, class })
        })
    }

    /// Judges an address and says where to connect: every address of the name is one that may be called.
    pub(crate) async fn check(&self, address: &Address) -> Result<Vec<SocketAddr>, NetError> {
        self.screen(address)?;
        let port = address.port;
        if let Some(literal) = address.literal() {
            return Ok(vec![SocketAddr::new(literal, port)]);
        }
        let host = &address.host;
        let found = match tokio::time::timeout(LOOKUP, self.resolver.resolve(host)).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            _ => return Err(NetError::Unresolved(host.clone())),
        };
        if !self.allowed.contains(&place(host, port)) {
            self.judge(host, port, &found)?;
        }
        Ok(found.into_iter().take(MOST_ADDRESSES).map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// One address that may not be called spoils the name: a mixture is how a guard is talked around.
    fn judge(&self, host: &str, port: u16, found: &[IpAddr]) -> Result<(), NetError> {
        for ip in found {
            if self.allowed.contains(&place(&ip.to_string(), port)) {
                continue;
            }
            if let Some(class) = class_of(*ip) {
                return Err(NetError::Forbidden { host: host.to_owned(), address: Some(*ip), class });
            }
        }
        Ok(())
    }
}

/// How an allowed place is written down.
fn place(host: &str, port: u16) -> String {
    format!("{host} {port}")
}

/// What may be shown of an address: keys travel in queries and before the host.
pub(crate) fn without_query(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let shown: String = shown.chars().filter(|c| !c.is_control()).take(200).collect();
    match shown.find("://") {
        Some(scheme) => {
            let rest = &shown[scheme + 3..];
            let authority = rest.split(['/', '\\']).next().unwrap_or_default();
            match authority.rfind('@') {
                Some(at) => format!("{}://{}", &shown[..scheme], &rest[at + 1..]),
                None => shown,
            }
        }
        None => shown,
    }
}

/// The address with a query made of these names and values.
pub fn with_query(url: &str, pairs: &[(&str, &str)]) -> Result<String, NetError> {
    let mut url = Url::parse(url).map_err(|_| NetError::BadAddress(without_query(url)))?;
    url.query_pairs_mut().extend_pairs(pairs);
    Ok(url.into())
}
