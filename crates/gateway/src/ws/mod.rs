//! The WebSocket side of the port: a client says who it is, then asks by method and hears events, on one connection.
//!
//! `connection` has the life of a socket, `handshake` who may enter, `peer` and `hub` who is there and what they hear,
//! `pump` what the engine tells. What a method means is the business of `crate::dialect`; this module knows only frames.
//! It owns no durable state but the paired devices.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod frame;
pub(crate) mod handshake;
mod hello;
pub(crate) mod hub;
pub(crate) mod local;
pub(crate) mod outbox;
pub(crate) mod peer;
mod pump;
pub(crate) mod scope;
pub(crate) mod subscriptions;

use std::net::IpAddr;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header::{ORIGIN, UPGRADE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tidegate_protocol::ErrorCode;

use crate::answer::Refusal;
use crate::gate::{Entrance, Gate};
use crate::page;
use connection::Arrival;
use peer::Dialect;

/// The largest frame a client may send.
pub(crate) const LARGEST_FRAME: usize = 512 * 1024;
/// What a socket reads at once; ten thousand of them wait most of the time.
const READ_BUFFER: usize = 4 * 1024;
/// Where the dialect `openfoal` is spoken. On every other path it is `openclaw`.
const OPENFOAL_PATH: &str = "/ws";

/// Where a connection comes from; put beside each request by the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComesFrom(pub(crate) IpAddr);

/// Whatever no address of ours is: a client that wants a socket, or somebody who looks for the page.
pub(crate) async fn socket_or_page(State(gate): State<Gate>, request: Request) -> Response {
    if !wants_socket(request.headers()) {
        return page::page(State(gate), request).await.into_response();
    }
    if request.method() != Method::GET {
        let message = "a socket is opened with GET";
        return Refusal::new(ErrorCode::MethodNotAllowed, message).into_response();
    }
    let from = request.extensions().get::<ComesFrom>().map(|from| from.0);
    let (mut parts, _) = request.into_parts();
    let control = matches!(gate.entrance, Entrance::Control);
    let arrival = Arrival {
        dialect: if parts.uri.path() == OPENFOAL_PATH { Dialect::Openfoal } else { Dialect::Openclaw },
        local: control || local::is_local(from, &parts.headers),
        control,
        // The door let it in, so an origin that is there is ours.
        has_own_origin: parts.headers.contains_key(ORIGIN),
    };
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &gate).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    if gate.shared.hub.count() >= hub::CLIENTS || gate.engine().is_closing() {
        return Refusal::new(ErrorCode::Unavailable, "no place is free; try again in a moment")
            .into_response();
    }
    let Ok(stranger) = gate.shared.hub.strangers.clone().try_acquire_owned() else {
        return Refusal::new(
            ErrorCode::Unavailable,
            "too many clients connect at once; try again in a moment",
        )
        .into_response();
    };
    let tasks = gate.shared.tasks.clone();
    bounded(upgrade)
        .on_upgrade(move |socket| tasks.track_future(connection::serve(gate, socket, arrival, stranger)))
}

/// `GET /api/v1/socket`: our own dialect. Who asks for it was seen by the guard of the address.
pub(crate) async fn native(State(gate): State<Gate>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let language = crate::answer::language(&parts.headers);
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &gate).await else {
        return Refusal::new(ErrorCode::BadRequest, "this address is a WebSocket: ask for an upgrade")
            .with_status(StatusCode::UPGRADE_REQUIRED)
            .into_response();
    };
    if gate.engine().is_closing() || gate.closing.is_requested() {
        return Refusal::new(ErrorCode::Closing, "the gateway is shutting down").into_response();
    }
    if gate.shared.hub.count() >= hub::CLIENTS {
        return Refusal::new(ErrorCode::Unavailable, "no place is free; try again in a moment")
            .into_response();
    }
    let tasks = gate.shared.tasks.clone();
    bounded(upgrade)
        .on_upgrade(move |socket| tasks.track_future(connection::serve_native(gate, socket, language)))
}

/// The connection refuses frames above the bound itself, where it can say so; this ends those who send without end.
fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(LARGEST_FRAME * 64)
        .max_message_size(LARGEST_FRAME * 2)
        .max_frame_size(LARGEST_FRAME * 2)
}

pub(crate) fn wants_socket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
