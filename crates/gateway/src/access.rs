//! Who may enter: the checks every request passes, and the proof each route wants.

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tidegate_protocol::ErrorCode;

use crate::answer::{Refusal, dress, language};
use crate::checks::Stranger;
use crate::cookie;
use crate::gate::{Entrance, Gate};
use crate::ws::wants_socket;

/// What a route wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// The control socket, the token, or the page's cookie.
    Page,
    /// The control socket or the token.
    Program,
    /// The control socket.
    Control,
}

/// A route's guard.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) gate: Gate,
    pub(crate) access: Access,
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'";

/// The outermost layer: where a request says it comes from, and what every answer carries.
pub(crate) async fn door(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let language = language(request.headers());
    let stranger = match &gate.entrance {
        Entrance::Port(origins) => origins.check(request.uri(), request.headers()).err(),
        Entrance::Control => None,
    };
    let response = match stranger {
        None => next.run(request).await,
        Some(stranger) => turn_away(stranger).into_response(),
    };
    let mut response = dress(response, &path, language);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn turn_away(stranger: Stranger) -> Refusal {
    match stranger {
        Stranger::Host => {
            let message = "this gateway does not answer under that host name; use its own address, or add the name to gateway.hosts in the configuration";
            Refusal::new(ErrorCode::Forbidden, message).with_status(StatusCode::MISDIRECTED_REQUEST)
        }
        Stranger::Origin => {
            Refusal::new(ErrorCode::Forbidden, "a page of another site may not use this gateway")
        }
    }
}

/// Wants the route's proof before the handler sees the request.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match admit(&guard, request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn admit(guard: &Guard, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let Guard { gate, access } = guard;
    if *access == Access::Open || matches!(gate.entrance, Entrance::Control) {
        return Ok(());
    }
    if *access == Access::Control {
        return Err(Refusal::new(ErrorCode::Forbidden, "this is done through the control socket only"));
    }
    let Some(token) = &gate.shared.options.token else { return Err(unauthorized("nobody can log in here")) };
    if let Some(given) = headers.get(AUTHORIZATION) {
        // A wrong token is an error even beside a good cookie: the caller meant it.
        let given = given.to_str().ok().and_then(bearer);
        return if given.is_some_and(|given| token.is(given)) {
            Ok(())
        } else {
            Err(unauthorized("the token is wrong; it is in credentials/local-token of the home"))
        };
    }
    if *access == Access::Program {
        return Err(unauthorized(
            "this address wants `Authorization: Bearer` with the token in credentials/local-token of the home",
        ));
    }
    if !gate.is_logged_in(headers) {
        return Err(unauthorized("not logged in"));
    }
    // A socket takes requests that change something, so it is none of the harmless ones.
    let harmless = method.is_safe() && !wants_socket(headers);
    if !harmless && !is_from_own_page(headers) {
        return Err(Refusal::new(
            ErrorCode::Forbidden,
            "the browser does not say that our own page sent this",
        ));
    }
    Ok(())
}

/// An `Origin` that is there was found to be ours.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.get(FETCH_SITE).is_some_and(|site| site == "same-origin")
}

/// The token of an `Authorization` header.
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(message: &str) -> Refusal {
    Refusal::new(ErrorCode::Unauthorized, message)
}

impl Gate {
    /// Whether the browser shows a cookie of ours.
    pub(crate) fn is_logged_in(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.shared.options.token else { return false };
        let (key, now) = (token.cookie_key(), self.shared.now());
        let mut cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies.any(|header| cookie::is_good(&key, header, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bearer_scheme_carries_a_token() {
        for (header, token) in [
            ("Bearer tok", Some("tok")),
            ("bearer  tok ", Some("tok")),
            ("Token x", None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(bearer(header), token, "{header:?}");
        }
    }
}
