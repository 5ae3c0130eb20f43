//! What pages ask the network for. The browser itself reaches nothing: each request is held, judged by the guard like any
//! address that somebody outside chose, made by our own client at exactly the addresses that were judged, and its answer
//! handed to the page. A redirect is an answer; where it leads is a request like any other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_net::{Address, Call, Client, Headers, Method, NetError, Origin, Reply, Timeouts};
use tokio::sync::Semaphore;

use super::wire::Wire;

/// Bytes of one answer.
const LARGEST: usize = 16 << 20;
/// Requests under way at once, and those that wait for their turn.
const AT_ONCE: usize = 12;
const WAITING: usize = 500;
/// For one request with its whole answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// Refusals that are remembered to be told.
const REMEMBERED: usize = 50;

/// What belongs to a connection, or is not true any more once the body was read.
const OURS: [&str; 9] = [
    "host",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "te",
    "trailer",
    "upgrade",
];

/// Why a page did not get something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotFetched {
    Net(NetError),
    /// In plain words.
    Other(&'static str),
}

pub(super) struct Egress {
    client: Client,
    slots: Semaphore,
    waiting: AtomicUsize,
    /// The last ones, by address.
    refusals: Mutex<VecDeque<(String, NotFetched)>>,
}

impl Egress {
    pub(super) fn new(client: Client) -> Self {
        let (slots, waiting) = (Semaphore::new(AT_ONCE), AtomicUsize::new(0));
        Self { client, slots, waiting, refusals: Mutex::default() }
    }

    /// Answers a request that the browser holds, beside everything else that goes on.
    pub(super) async fn take(self: &Arc<Self>, wire: &Arc<Wire>, request: Value) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let failed = json!({ "requestId": request["requestId"], "errorReason": "Failed" });
            wire.tell(None, "Fetch.failRequest", failed).await;
            return;
        }
        let (egress, wire) = (Arc::clone(self), Arc::clone(wire));
        // It ends by itself: with its deadline, or when the browser takes no answer any more.
        drop(tidegate_runtime::spawn("page request", async move {
            egress.answer(&wire, &request).await;
            egress.waiting.fetch_sub(1, Ordering::Relaxed);
        }));
    }

    async fn answer(&self, wire: &Wire, request: &Value) {
        let Ok(_slot) = self.slots.acquire().await else { return };
        if wire.is_ended() {
            return;
        }
        let (method, params) = match self.fetch(&request["request"]).await {
            Ok(answer) => ("Fetch.fulfillRequest", answer),
            Err(why) => {
                let reason = reason(&why);
                let url = request["request"]["url"].as_str().unwrap_or_default();
                self.remember(url, why);
                ("Fetch.failRequest", json!({ "errorReason": reason }))
            }
        };
        let mut params = params;
        params["requestId"] = request["requestId"].clone();
        wire.tell(None, method, params).await;
    }

    async fn fetch(&self, request: &Value) -> Result<Value, NotFetched> {
        let call = outgoing(request)?;
        let host = Address::read(&call.url).map(|address| address.host().to_owned()).unwrap_or_default();
        let exchange = async {
            let reply = self.client.call(call).await?;
            let status = reply.status();
            let headers = kept_headers(&reply);
            Ok((status, headers, reply.bytes(LARGEST).await?))
        };
        let done = tokio::time::timeout(DEADLINE, exchange).await;
        let done = done.unwrap_or_else(|_| Err(NetError::Deadline { host, within: DEADLINE }));
        let (status, headers, body) = done.map_err(NotFetched::Net)?;
        Ok(json!({ "responseCode": status, "responseHeaders": headers, "body": STANDARD.encode(body) }))
    }

    fn remember(&self, url: &str, why: NotFetched) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.push_back((url.chars().take(2_000).collect(), why));
        if refusals.len() > REMEMBERED {
            refusals.pop_front();
        }
    }

    /// Why the last request to this address got nothing.
    pub(super) fn refusal(&self, url: &str) -> Option<NotFetched> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.iter().rev().find(|(known, _)| known == url).map(|(_, why)| why.clone())
    }

    pub(super) fn last(&self) -> Option<NotFetched> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.back().map(|(_, why)| why.clone())
    }

    /// The last refusals, each on one line.
    pub(super) fn refusals(&self) -> Vec<String> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.iter().map(|(_, why)| why.to_string()).collect()
    }
}

impl std::fmt::Display for NotFetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Net(error) => error.fmt(f),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// The request of a page as our client makes it. Its headers are the browser's, cookies and all.
fn outgoing(request: &Value) -> Result<Call, NotFetched> {
    let url = request["url"].as_str().unwrap_or_default().to_owned();
    let method = request["method"].as_str().and_then(Method::parse);
    let method = method.ok_or(NotFetched::Other("the method of a request is not one that is sent"))?;
    let mut headers = Headers::default();
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        let lower = name.to_ascii_lowercase();
        if let Some(value) = value.as_str()
            && !OURS.contains(&lower.as_str())
            && !lower.starts_with("proxy-")
        {
            headers.set(&lower, value);
        }
    }
    let body = body(request)?;
    Ok(Call { origin: Origin::Chosen, method, url, headers, body, timeouts: Timeouts { idle: DEADLINE } })
}

fn body(request: &Value) -> Result<Vec<u8>, NotFetched> {
    if request["hasPostData"] != json!(true) {
        return Ok(Vec::new());
    }
    let whole = || NotFetched::Other("a page sent a file, which is not passed on");
    let pieces = request["postDataEntries"].as_array().ok_or_else(whole)?;
    let mut body = Vec::new();
    for piece in pieces {
        let bytes = piece["bytes"].as_str().and_then(|text| STANDARD.decode(text).ok()).ok_or_else(whole)?;
        body.extend(bytes);
    }
    Ok(body)
}

/// Cookies may be there several times: each is a header of its own.
fn kept_headers(reply: &Reply) -> Vec<Value> {
    let kept = reply.headers().filter(|(name, _)| !OURS.contains(name));
    kept.map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// What the page is told.
fn reason(why: &NotFetched) -> &'static str {
    match why {
        NotFetched::Net(NetError::Unresolved(_)) => "NameNotResolved",
        NotFetched::Net(NetError::Unreachable { .. } | NetError::Broken { .. }) => "ConnectionFailed",
        NotFetched::Net(error) if error.is_timeout() => "TimedOut",
        NotFetched::Net(_) | NotFetched::Other(_) => "BlockedByClient",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_out_as_the_page_made_it_and_without_what_is_the_connections() {
        let call = outgoing(&json!({
            "url": "https://a.example/x", "method": "POST", "hasPostData": true,
            "headers": { "Cookie": "k=v", "Host": "evil", "Accept-Encoding": "br", "Proxy-Authorization": "x", "X-A": "1" },
            "postDataEntries": [{ "bytes": "aGk=" }, { "bytes": "IQ==" }],
        }))
        .unwrap();
        let names: Vec<_> = call.headers.iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(
            (call.origin, call.method, call.body.as_slice()),
            (Origin::Chosen, Method::Post, &b"hi!"[..])
        );
        assert_eq!(names, ["cookie", "x-a"]);
    }

    #[test]
    fn a_file_and_a_strange_method_are_not_sent() {
        let file = json!({ "url": "https://a/", "method": "POST", "headers": {}, "hasPostData": true, "postDataEntries": [{}] });
        assert!(outgoing(&file).is_err());
        assert!(outgoing(&json!({ "url": "https://a/", "method": "TRACE", "headers": {} })).is_err());
    }
}
