//! Logging a browser in and out.

use axum::extract::{Request, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{Login, LoginLink};

use crate::answer::{Answered, Refusal, json, no_content};
use crate::gate::Gate;
use crate::login::Redeemed;
use crate::page::login_page;
use crate::{body, cookie, texts};

/// What browsers say when they fetch a page that nobody opened yet.
const AHEAD: [&str; 3] = ["sec-purpose", "purpose", "x-moz"];

/// `GET /login?code=…`: the link a person opens.
pub(crate) async fn follow_link(
    State(gate): State<Gate>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if method != Method::GET || is_ahead(&headers) {
        // The code must be there when the person comes.
        return StatusCode::NO_CONTENT.into_response();
    }
    let code = uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("code=")));
    match redeem(&gate, code.unwrap_or_default()) {
        Ok(cookie) => {
            (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response()
        }
        // Whoever opens the link again and is logged in already wants the page.
        Err(_) if gate.is_logged_in(&headers) => {
            (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned())]).into_response()
        }
        Err(Redeemed::TooManyTries) => login_page(&headers, StatusCode::TOO_MANY_REQUESTS, texts::LOGIN_WAIT),
        Err(_) => login_page(&headers, StatusCode::UNAUTHORIZED, texts::LOGIN_BODY),
    }
}

fn is_ahead(headers: &HeaderMap) -> bool {
    let mut values =
        AHEAD.iter().filter_map(|name| headers.get(*name)).filter_map(|value| value.to_str().ok());
    values.any(|value| value.contains("prefetch") || value.contains("preview"))
}

/// `POST /api/v1/login`: the same by the page, from a link or code that was pasted.
pub(crate) async fn log_in(State(gate): State<Gate>, request: Request) -> Answered {
    let Login { code } = body::read(request).await?;
    let code = code.trim().rsplit("code=").next().unwrap_or_default().to_owned();
    match redeem(&gate, &code) {
        Ok(cookie) => Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response()),
        Err(Redeemed::TooManyTries) => {
            Err(Refusal::new(ErrorCode::TooManyRequests, "too many wrong codes were tried; wait a minute"))
        }
        Err(_) => Err(Refusal::new(
            ErrorCode::LoginCodeInvalid,
            "the login code is unknown, was used, or is too old",
        )),
    }
}

/// Uses a code up; answers the cookie.
fn redeem(gate: &Gate, code: &str) -> Result<String, Redeemed> {
    let Some(token) = &gate.shared.options.token else { return Err(Redeemed::Invalid) };
    let now = gate.shared.now();
    match gate.shared.codes.redeem(code, now) {
        Redeemed::Good => Ok(cookie::issue(&token.cookie_key(), now)),
        refused => Err(refused),
    }
}

pub(crate) async fn log_out() -> Response {
    let mut response = no_content();
    if let Ok(cleared) = cookie::clear().parse() {
        response.headers_mut().insert(SET_COOKIE, cleared);
    }
    response
}

pub(crate) async fn make_link(State(gate): State<Gate>) -> Answered {
    let link =
        gate.shared.login_link().map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
    let closed =
        || Refusal::new(ErrorCode::Unavailable, "no port is open here; start the gateway with `tidegate up`");
    json(&LoginLink { link: link.ok_or_else(closed)? })
}
