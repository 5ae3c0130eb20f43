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
pub(crate) mod socket;
mod standing;
pub(crate) mod subscriptions;

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{ORIGIN, UPGRADE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::spawn;

use crate::allowance::Allowance;
use crate::answer::Refusal;
use crate::gate::{Entrance, Gate};
use crate::page;
use connection::Arrival;
use peer::Dialect;
use socket::{Socket, Upgrade};

/// The largest frame a client may send: a message with an image.
pub(crate) const LARGEST_FRAME: usize = 8 * 1024 * 1024;
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
    let allowance = request.extensions().get::<Allowance>().cloned();
    let (mut parts, _) = request.into_parts();
    let control = matches!(gate.entrance, Entrance::Control);
    let arrival = Arrival {
        dialect: if parts.uri.path() == OPENFOAL_PATH { Dialect::Openfoal } else { Dialect::Openclaw },
        local: control || local::is_local(from, &parts.headers),
        control,
        from,
        // The door let it in, so an origin that is there is ours.
        has_own_origin: parts.headers.contains_key(ORIGIN),
    };
    let upgrade = match Upgrade::of(&mut parts).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection,
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
    granted(upgrade, gate, move |gate, socket| {
        connection::serve(gate, socket, arrival, (stranger, allowance))
    })
}

/// `GET /api/v1/socket`: our own dialect. Who asks for it was seen by the guard of the address.
pub(crate) async fn native(State(gate): State<Gate>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let language = crate::answer::language(&parts.headers);
    let Ok(upgrade) = Upgrade::of(&mut parts).await else {
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
    granted(upgrade, gate, move |gate, socket| connection::serve_native(gate, socket, language))
}

/// Grants a socket and serves it until its client goes, or everybody is cut off.
fn granted<F>(
    upgrade: Upgrade,
    gate: Gate,
    serve: impl FnOnce(Gate, Socket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (answer, socket) = upgrade.grant();
    let (tasks, cut) = (gate.shared.tasks.clone(), gate.shared.cut.clone());
    let task = async move {
        // In a box of its own, so that what leads here is not kept beside it.
        let Some(socket) = Box::pin(socket).await else { return };
        let mut served = std::pin::pin!(serve(gate, socket));
        tokio::select! {
            () = &mut served => {}
            () = cut.requested() => {}
        }
    };
    spawn("gateway.ws", tasks.track_future(task));
    answer
}

pub(crate) fn wants_socket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
