//! Whether a caller sits at this machine. Pure.
//!
//! Local means: the connection comes from a loopback address, it asks for a loopback name, and no proxy stands between.
//! A header that a proxy would set makes it remote: what such a header says can be made up.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::HOST;

const FORWARDED: [&str; 4] = ["x-forwarded-for", "x-real-ip", "x-forwarded-host", "forwarded"];

pub(crate) fn is_local(from: Option<IpAddr>, headers: &HeaderMap) -> bool {
    let loopback = from.is_some_and(|ip| ip.to_canonical().is_loopback());
    let named = headers.get(HOST).and_then(|host| host.to_str().ok()).is_some_and(is_loopback_name);
    loopback && named && !FORWARDED.iter().any(|name| headers.contains_key(*name))
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loopback_caller_without_a_proxy_is_local() {
        for (from, headers, local) in [
            ("127.0.0.1", vec![("host", "localhost:18789")], true),
            ("::1", vec![("host", "[::1]:18789")], true),
            ("::ffff:127.0.0.1", vec![("host", "127.0.0.1:1")], true),
            ("127.9.9.9", vec![("host", "LOCALHOST")], true),
            ("127.0.0.1", vec![], false),
            ("127.0.0.1", vec![("host", "localhost.")], false),
            ("127.0.0.1", vec![("host", "gate.example")], false),
            ("127.0.0.1", vec![("host", "localhost"), ("x-forwarded-for", "127.0.0.1")], false),
            ("10.0.0.2", vec![("host", "localhost")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.insert(*name, value.parse().unwrap());
            }
            assert_eq!(is_local(Some(from.parse().unwrap()), &map), local, "{from} {headers:?}");
        }
        assert!(!is_local(None, &HeaderMap::new()));
    }
}
