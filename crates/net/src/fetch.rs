//! A whole exchange: redirects followed one by one, each judged anew, the body read up to a limit, all within a time.

use std::time::Duration;

use crate::client::{Call, Client, Headers, Origin, Reply};
use crate::error::NetError;
use crate::guard::Address;

/// Headers of an answer that are kept, and the length of each.
const MOST_HEADERS: usize = 64;
const LONGEST_HEADER: usize = 2 << 10;
/// What a redirect to another server may take along of the headers: nothing that could be a key.
const HARMLESS: [&str; 3] = ["accept", "accept-language", "user-agent"];

/// Where redirects may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Wherever the guard lets them.
    Any,
    /// To the host that was asked for, at any port: whoever permitted the call permitted that one. A redirect to another
    /// host is the answer.
    Same,
}

/// What is fetched, and how much of it.
#[derive(Debug, Clone)]
pub struct Fetch {
    pub call: Call,
    /// How many redirects are followed. Those of a request that changes something never are.
    pub redirects: usize,
    pub hosts: Hosts,
    /// For everything together.
    pub deadline: Duration,
    /// Bytes of the body that are read; the rest is left where it is.
    pub limit: usize,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where the answer came from in the end.
    pub url: String,
    pub status: u16,
    /// Names in lower case. Bounded in number and length.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// There was more.
    pub cut: bool,
    /// How many redirects were followed.
    pub hops: usize,
    /// It began encrypted and did not end so.
    pub downgraded: bool,
}

impl Fetched {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// Fetches. Where a redirect leads was chosen by the server, whoever chose the first address.
    pub async fn fetch(&self, fetch: Fetch) -> Result<Fetched, NetError> {
        let (host, within) = (host_of(&fetch.call.url), fetch.deadline);
        match tokio::time::timeout(within, self.follow(fetch)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(NetError::Deadline { host, within }),
        }
    }

    async fn follow(&self, fetch: Fetch) -> Result<Fetched, NetError> {
        let Fetch { mut call, redirects, hosts, limit, .. } = fetch;
        let first = call.url.clone();
        for hops in 0..=redirects {
            let reply = self.call(call.clone()).await?;
            let next = redirect(&reply).filter(|_| call.method.only_reads() && redirects > 0);
            let Some(next) = next else {
                return read(reply, &first, call.url, hops, limit).await;
            };
            let next = step(&call, next)?;
            if hosts == Hosts::Same && host_of(&next.url) != host_of(&first) {
                return read(reply, &first, call.url, hops, limit).await;
            }
            call = next;
        }
        Err(NetError::Redirects { host: host_of(&first), limit: redirects })
    }
}

/// Where an answer sends us.
fn redirect(reply: &Reply) -> Option<&str> {
    matches!(reply.status(), 301 | 302 | 303 | 307 | 308).then(|| reply.header("location")).flatten()
}

/// The next request. It leaves everything that may be a secret behind when it leaves the server.
fn step(call: &Call, next: &str) -> Result<Call, NetError> {
    let here = match call.origin {
        Origin::Chosen | Origin::Credential => Address::read(&call.url)?,
        // An operator may have written a user name into it; where it leads to may not have one.
        Origin::Configured => Address::read_configured(&call.url)?,
    };
    let there = here.join(next)?;
    let url = there.as_str().to_owned();
    if here.same_origin(&there) {
        return Ok(Call { url, ..call.clone() });
    }
    let mut headers = Headers::default();
    for (name, value) in call.headers.iter().filter(|(name, _)| HARMLESS.contains(name)) {
        headers.set_secret(name, value);
    }
    Ok(Call { url, headers, origin: Origin::Chosen, body: Vec::new(), ..call.clone() })
}

async fn read(
    mut reply: Reply,
    first: &str,
    url: String,
    hops: usize,
    limit: usize,
) -> Result<Fetched, NetError> {
    let status = reply.status();
    let kept = |value: &str| value.chars().take(LONGEST_HEADER).collect::<String>();
    let headers =
        reply.headers().take(MOST_HEADERS).map(|(name, value)| (name.to_owned(), kept(value))).collect();
    let mut body = Vec::new();
    let mut cut = false;
    while !cut && let Some(chunk) = reply.chunk().await? {
        let chunk = chunk.as_ref();
        let room = limit - body.len();
        cut = chunk.len() > room;
        body.extend_from_slice(&chunk[..room.min(chunk.len())]);
    }
    let downgraded = starts_encrypted(first) && !starts_encrypted(&url);
    Ok(Fetched { url, status, headers, body, cut, hops, downgraded })
}

fn host_of(url: &str) -> String {
    Address::read_configured(url).map(|address| address.host().to_owned()).unwrap_or_default()
}

fn starts_encrypted(url: &str) -> bool {
    url.trim_start().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}
