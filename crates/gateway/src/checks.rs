//! Where a request says it comes from, before anybody asks who sends it. Pure.
//!
//! A page of another site can make a browser send requests here, and a name that is made to point at this computer can
//! make them look local. So the `Host` must be an address of ours, and an `Origin`, when there is one, must be our own.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};

/// The addresses that are ours.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    bound: SocketAddr,
    /// Names an operator configured, in lower case; any port, since a proxy may stand in front.
    names: Vec<String>,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// It asks for another host.
    Host,
    /// A page of another site sent it.
    Origin,
}

impl Origins {
    pub(crate) fn new(bound: SocketAddr, names: &[String]) -> Self {
        Self { bound, names: names.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Stranger> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Stranger::Host) };
        let host = host.to_str().map_err(|_| Stranger::Host)?;
        // A request line may name the host too, and then that one counts.
        let line_agrees = uri.authority().is_none_or(|line| line.as_str().eq_ignore_ascii_case(host));
        if !line_agrees || !self.is_ours(host) {
            return Err(Stranger::Host);
        }
        let foreign =
            headers.get_all(ORIGIN).iter().any(|origin| !self.is_own_origin(host, origin.as_bytes()));
        if foreign { Err(Stranger::Origin) } else { Ok(()) }
    }

    fn is_ours(&self, host: &str) -> bool {
        let Some((name, port)) = split(host) else { return false };
        if self.is_configured(name) {
            return true;
        }
        if port.unwrap_or(80) != self.bound.port() {
            return false;
        }
        match name.parse::<IpAddr>() {
            // An address cannot be made to point elsewhere as a name can.
            Ok(ip) => ip.is_loopback() || ip == self.bound.ip() || self.bound.ip().is_unspecified(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    fn is_configured(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// `host` was found to be ours.
    fn is_own_origin(&self, host: &str, origin: &[u8]) -> bool {
        let is = |scheme: &str| origin.eq_ignore_ascii_case(format!("{scheme}://{host}").as_bytes());
        let proxied = split(host).is_some_and(|(name, _)| self.is_configured(name));
        is("http") || (proxied && is("https"))
    }
}

/// Name and port of a `Host`; an IPv6 address loses its brackets.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            name.contains(':').then_some((name, port))?
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if port.is_empty() {
        return Some((name, None));
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((name, Some(digits.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bound: &str, host: Option<&str>, origin: Option<&str>) -> Result<(), Stranger> {
        let origins = Origins::new(bound.parse().unwrap(), &["Gate.example".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        origins.check(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn only_our_own_addresses_are_answered() {
        let local = "127.0.0.1:18789";
        for (bound, host, ours) in [
            (local, "127.0.0.1:18789", true),
            (local, "localhost:18789", true),
            (local, "LOCALHOST:18789", true),
            (local, "[::1]:18789", true),
            (local, "127.9.9.9:18789", true),
            (local, "gate.example", true),
            (local, "gate.example:443", true),
            (local, "localhost", false),
            (local, "localhost:18788", false),
            (local, "localhost:018789x", false),
            (local, "localhost.:18789", false),
            (local, "evil.example:18789", false),
            (local, "localhost.evil.example:18789", false),
            (local, "127.0.0.1.evil.example:18789", false),
            (local, "192.168.1.2:18789", false),
            (local, "user@127.0.0.1:18789", false),
            (local, "[::1:18789", false),
            (local, "[localhost]:18789", false),
            (local, "", false),
            ("192.168.1.2:18789", "192.168.1.2:18789", true),
            ("192.168.1.2:18789", "192.168.1.3:18789", false),
            ("0.0.0.0:18789", "192.168.1.3:18789", true),
            ("0.0.0.0:18789", "evil.example:18789", false),
            ("127.0.0.1:80", "localhost", true),
        ] {
            assert_eq!(check(bound, Some(host), None).is_ok(), ours, "{host} on {bound}");
        }
        assert_eq!(check(local, None, None), Err(Stranger::Host));
    }

    #[test]
    fn an_origin_must_be_our_own() {
        let host = Some("localhost:18789");
        for (host, origin, own) in [
            (host, "http://localhost:18789", true),
            (host, "HTTP://LOCALHOST:18789", true),
            (host, "http://127.0.0.1:18789", false),
            (host, "https://localhost:18789", false),
            (host, "http://localhost:18789.evil.example", false),
            (host, "http://localhost", false),
            (host, "null", false),
            (host, "", false),
            (Some("gate.example"), "https://gate.example", true),
            (Some("gate.example"), "https://other.example", false),
        ] {
            let expected = if own { Ok(()) } else { Err(Stranger::Origin) };
            assert_eq!(check("127.0.0.1:18789", host, Some(origin)), expected, "{origin}");
        }
    }

    #[test]
    fn two_hosts_are_no_host() {
        let origins = Origins::new("127.0.0.1:1".parse().unwrap(), &[]);
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost:1".parse().unwrap());
        assert_eq!(origins.check(&Uri::from_static("http://localhost:1/"), &headers), Ok(()));
        assert_eq!(origins.check(&Uri::from_static("http://evil.example/"), &headers), Err(Stranger::Host));
        headers.append(HOST, "localhost:1".parse().unwrap());
        assert_eq!(origins.check(&Uri::from_static("/"), &headers), Err(Stranger::Host));
    }
}
