//! What one request gets: a tunnel, the answer of the host, or a refusal in plain text.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};

use super::{Desk, LEVEL, Seat};
use crate::error::NetError;
use crate::guard::Address;

pub(super) type Body = BoxBody<Bytes, reqwest::Error>;

impl Desk {
    pub(super) async fn answer(&self, request: Request<Incoming>, seat: Seat) -> Response<Body> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let answered = match place(&request) {
            Ok(address) if request.method() == Method::CONNECT => self.tunnel(&address, request, seat).await,
            Ok(address) => self.forward(address, request).await,
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| self.refusal(&host, &error))
    }

    fn refusal(&self, host: &str, error: &NetError) -> Response<Body> {
        let status = match error {
            NetError::Refused(_) | NetError::Forbidden { .. } | NetError::Leak { .. } => {
                StatusCode::FORBIDDEN
            }
            NetError::BadAddress(_) => StatusCode::BAD_REQUEST,
            NetError::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            error if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let why = format!("{error}{}", hint(error));
        if status == StatusCode::FORBIDDEN {
            self.note_refusal(host, &why);
        }
        let mut response = Response::new(text(format!("tidegate: {why}\n")));
        *response.status_mut() = status;
        let plain = hyper::header::HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, plain);
        response
    }
}

/// Where a request wants to go.
fn place(request: &Request<Incoming>) -> Result<Address, NetError> {
    let uri = request.uri();
    if request.method() == Method::CONNECT {
        let authority = uri.authority().filter(|authority| authority.port_u16().is_some());
        let authority = authority.ok_or_else(|| NetError::BadAddress("CONNECT without a port".to_owned()))?;
        return Address::read(&format!("https://{authority}/"));
    }
    if uri.authority().is_none() {
        let why = "a request to a proxy has a whole address: GET http://host/";
        return Err(NetError::BadAddress(why.to_owned()));
    }
    Address::read(&uri.to_string())
}

/// What an operator can do about a refusal, where it does not say so itself.
fn hint(error: &NetError) -> &'static str {
    match error {
        NetError::Forbidden { .. } => {
            " (an operator can allow a private host and port in tools.web.allowPrivate)"
        }
        NetError::Refused(refusal) if refusal.key().is_some_and(|key| key.starts_with(LEVEL)) => {
            " (in agents.defaults.sandbox, or in agents.list[].sandbox of this agent; egress.allowHosts and \
             egress.denyHosts narrow that list)"
        }
        _ => "",
    }
}

pub(super) fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}
