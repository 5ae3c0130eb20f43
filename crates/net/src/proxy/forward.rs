//! A request with a whole address: made here, with the keys that belong to its host.

use std::sync::atomic::Ordering;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Request, Response};

use super::answer::Body;
use super::{Credential, Desk};
use crate::client::refused;
use crate::error::NetError;
use crate::guard::Address;

/// Headers that belong to one connection, besides those that its `connection` header names. What a program says to its
/// proxy is for nobody else.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("keep-alive"),
];

impl Desk {
    /// Makes the request and passes the answer on as it comes. Redirects are the program's to follow, through here.
    pub(super) async fn forward(
        &self,
        address: Address,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, NetError> {
        let keys: Vec<_> = self.credentials.iter().filter(|key| key.host.covers(address.host())).collect();
        let address = if keys.iter().any(|key| key.https) { address.encrypted() } else { address };
        let guard = self.client.guard();
        guard.screen(&address)?;
        let (parts, body) = request.into_parts();
        let body = self.whole(address.host(), body).await?;
        let headers = of_request(&parts.headers);
        let sent: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        guard.scan(&address, &sent, &body).await?;
        let at = guard.check(&address).await?;
        let headers = with_keys(headers, &keys);
        let builder = self.client.pinned_builder(&address, &at).read_timeout(self.limits.idle);
        let host = || address.host().to_owned();
        let unreachable = |error| NetError::Unreachable { host: host(), cause: NetError::cause(error) };
        let idle = || NetError::Idle { host: host(), seconds: self.limits.idle.as_secs() };
        let http = builder.build().map_err(unreachable)?;
        let sent = http.request(parts.method, address.url().clone()).headers(headers).body(body).send();
        let response = match tokio::time::timeout(self.limits.idle, sent).await {
            Err(_) => return Err(idle()),
            Ok(Err(error)) if error.is_timeout() && !error.is_connect() => return Err(idle()),
            Ok(Err(error)) => return Err(refused(error, host(), self.limits.connect)),
            Ok(Ok(response)) => response,
        };
        self.passed.fetch_add(1, Ordering::Relaxed);
        Ok(passed_on(response))
    }

    async fn whole(&self, host: &str, body: Incoming) -> Result<Bytes, NetError> {
        let limit = self.limits.body;
        let read = Limited::new(body, limit).collect();
        let host = || host.to_owned();
        match tokio::time::timeout(self.limits.idle, read).await {
            Ok(Ok(whole)) => Ok(whole.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(NetError::BodyTooLarge { host: host(), limit })
            }
            Ok(Err(error)) => Err(NetError::Broken { host: host(), cause: error.to_string() }),
            Err(_) => Err(NetError::Idle { host: host(), seconds: self.limits.idle.as_secs() }),
        }
    }
}

/// What the host gets of a program's headers. Its name and the length of the body are written anew.
fn of_request(headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end(headers);
    kept.remove(header::HOST);
    kept.remove(header::CONTENT_LENGTH);
    kept
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    for name in named.flat_map(|value| value.split(',')) {
        kept.remove(name.trim());
    }
    for name in OF_ONE_CONNECTION {
        kept.remove(name);
    }
    kept.remove("proxy-connection");
    kept
}

/// What a program sent under a key's name gives way to the key.
fn with_keys(mut headers: HeaderMap, keys: &[&Credential]) -> HeaderMap {
    for key in keys {
        headers.insert(key.header.clone(), key.value.clone());
    }
    headers
}

fn passed_on(response: reqwest::Response) -> Response<Body> {
    let (status, headers) = (response.status(), end_to_end(response.headers()));
    let mut answer = Response::new(reqwest::Body::from(response).boxed());
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}
