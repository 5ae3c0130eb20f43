//! Which addresses are asked on the way to a login. A server names them, so they may be traps.
//!
//! On the server's own host, and on the one that the operator named, everything goes. Elsewhere only what is public:
//! no server gets us to knock at the machines around us. What is not encrypted stays on this machine, unless the
//! operator reaches the server itself that way.

use tidegate_net::Origin;
use url::Url;

use super::SignInError;

pub(crate) struct Trust {
    server: Url,
    /// The host of the authorization server that the operator named.
    named: Option<String>,
}

impl Trust {
    pub(crate) fn new(server: &str, named: Option<&str>) -> Result<Self, SignInError> {
        let host = |text: &str| Url::parse(text).ok()?.host_str().map(str::to_owned);
        let server = Url::parse(server)
            .map_err(|_| SignInError::Untrusted { url: server.to_owned(), why: "it is no address" })?;
        Ok(Self { server, named: named.and_then(host) })
    }

    pub(crate) fn server(&self) -> &Url {
        &self.server
    }

    /// How an address may be called, if it may be.
    pub(crate) fn judge(&self, text: &str) -> Result<(Url, Origin), SignInError> {
        let untrusted = |why| SignInError::Untrusted { url: shown(text), why };
        let url = Url::parse(text).map_err(|_| untrusted("it is no address"))?;
        let Some(host) = url.host_str() else { return Err(untrusted("it has no host")) };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(untrusted("it has a user name in it"));
        }
        let own = Some(host) == self.server.host_str();
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(host) || (own && self.server.scheme() == "http") => {}
            "http" => return Err(untrusted("it is not encrypted")),
            _ => return Err(untrusted("it is not https")),
        }
        let known = own || self.named.as_deref() == Some(host);
        let origin = if known { Origin::Configured } else { Origin::Chosen };
        Ok((url, origin))
    }
}

fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// As people may see it.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    tidegate_policy::inert::inert_line(tidegate_tools::truncate::head_bytes(text, 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_send_us_to_the_machines_around_us_or_into_the_open() {
        let judged = |server: &str, url: &str| {
            let trust = Trust::new(server, Some("https://auth.inside/x")).unwrap();
            trust.judge(url).map(|(_, origin)| origin).map_err(|error| error.to_string())
        };
        let public = "https://tools.example/mcp";
        let here = "http://127.0.0.1:9000/mcp";
        for (server, url, expected) in [
            (public, "https://tools.example/.well-known/x", Ok(Origin::Configured)),
            (public, "https://auth.inside/token", Ok(Origin::Configured)),
            (public, "https://login.example/token", Ok(Origin::Chosen)),
            // The guard of the client refuses these two.
            (public, "http://127.0.0.1/token", Ok(Origin::Chosen)),
            (public, "https://169.254.169.254/token", Ok(Origin::Chosen)),
            (public, "http://login.example/token", Err("it is not encrypted")),
            (public, "http://tools.example/token", Err("it is not encrypted")),
            (public, "file:///etc/passwd", Err("it has no host")),
            (public, "ftp://tools.example/", Err("it is not https")),
            (public, "https://me:pw@tools.example/", Err("it has a user name in it")),
            (here, "http://127.0.0.1:9001/token", Ok(Origin::Configured)),
            (here, "http://localhost:9001/token", Ok(Origin::Chosen)),
            ("http://tools.lan/mcp", "http://tools.lan/token", Ok(Origin::Configured)),
        ] {
            match (judged(server, url), expected) {
                (Ok(origin), Ok(expected)) => assert_eq!(origin, expected, "{url}"),
                (Err(error), Err(why)) => assert!(error.contains(why), "{url}: {error}"),
                (got, _) => panic!("{url}: {got:?}"),
            }
        }
    }
}
