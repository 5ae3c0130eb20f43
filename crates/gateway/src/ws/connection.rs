//! The life of a socket: challenge, handshake, then requests and events until one side goes.
//!
//! One task has a socket. It writes what waits in the client's queue and reads requests; each request is answered by a
//! task of its own, so that a long one holds nobody up.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::json;
use tidegate_runtime::catalogue::Language;
use tidegate_runtime::spawn;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};

use super::frame::{self, UNAVAILABLE, WireError};
use super::handshake::{self, CLOSE_POLICY, SentAway, Visit};
use super::outbox::{Ending, Waiting};
use super::peer::{Dialect, NewPeer, Peer};
use super::scope::{Role, Scopes};
use super::socket::{CloseFrame, Error, Message, Socket, Utf8Bytes};
use super::{LARGEST_FRAME, hello, pump};
use crate::access::TOO_MANY_WRONG;
use crate::allowance::Allowance;
use crate::dialect::{native, openfoal};
use crate::gate::Gate;
use crate::methods::{self, Caller};
use crate::token::random_text;

/// How long a client may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the other side may take to see that we close.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long runs may go on after a shutdown was told, so that their ends are told too.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// The largest first frame: nobody has said who they are.
const FIRST_FRAME: usize = 64 * 1024;
/// Bytes that are read of a stranger at all.
const STRANGER: u64 = 128 * 1024;
/// How long nothing follows an answer that has to be read alone.
const BREATH: Duration = Duration::from_millis(50);
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_TOO_LARGE: u16 = 1009;
const CLOSE_RESTART: u16 = 1012;

/// How a client came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) dialect: Dialect,
    pub(crate) local: bool,
    pub(crate) control: bool,
    pub(crate) from: Option<IpAddr>,
    pub(crate) has_own_origin: bool,
}

pub(crate) async fn serve(
    gate: Gate,
    mut socket: Socket,
    arrival: Arrival,
    (stranger, allowance): (OwnedSemaphorePermit, Option<Allowance>),
) {
    if let Some(allowance) = &allowance {
        allowance.bound(STRANGER);
    }
    // In a box of its own: what a handshake needs is not kept for the hours that follow.
    let entered = Box::pin(enter(&gate, &mut socket, arrival)).await;
    drop(stranger);
    let Some(peer) = entered else { return };
    if let Some(allowance) = allowance {
        allowance.lift();
    }
    let mut connection = Connection { gate, socket, peer };
    let (code, reason) = connection.live().await;
    connection.leave();
    Box::pin(close(&mut connection.socket, code, reason)).await;
}

/// A client whose proof was seen before the upgrade.
pub(crate) async fn serve_native(gate: Gate, socket: Socket, language: Language) {
    let Some(peer) = native::enter(&gate, language) else { return };
    let mut connection = Connection { gate, socket, peer };
    let (code, reason) = connection.live().await;
    connection.leave();
    Box::pin(close(&mut connection.socket, code, reason)).await;
}

/// The handshake; `None` when the client was sent away or went.
async fn enter(gate: &Gate, socket: &mut Socket, arrival: Arrival) -> Option<Arc<Peer>> {
    let deadline = Instant::now() + HANDSHAKE;
    if arrival.dialect == Dialect::Openfoal {
        return openfoal::enter(gate, socket, arrival, deadline).await;
    }
    let nonce = random_text::<24>().ok()?;
    let challenge = json!({ "nonce": nonce, "ts": gate.shared.now() });
    let challenge = frame::event("connect.challenge", &frame::to_json(&challenge), None, None);
    socket.text(challenge).await.ok()?;
    let Some(text) = first_text(gate, socket, deadline).await else {
        close(socket, CLOSE_NORMAL, "").await;
        return None;
    };
    let request = match handshake::first(&text) {
        Ok(request) => request,
        Err(away) => return send_away(socket, "", away).await,
    };
    match admit(gate, &request, arrival, &nonce).await {
        Ok((peer, token)) => {
            let hello = hello::hello(gate, &peer, token).await;
            let answer = frame::response(&request.id, &frame::to_json(&hello));
            if socket.text(answer).await.is_err() {
                gate.shared.hub.nodes.unregister(&peer);
                return None;
            }
            join(gate, &peer);
            gate.shared.hub.talk.tell(&peer);
            Some(peer)
        }
        Err(away) if away.guessed && gate.shared.guesses.wrong(arrival.from, gate.shared.now()) => {
            send_away(socket, &request.id, SentAway::with(too_many_wrong(UNAVAILABLE), CLOSE_POLICY)).await
        }
        Err(away) => send_away(socket, &request.id, away).await,
    }
}

/// What whoever guesses is told, under a code of its dialect.
pub(crate) fn too_many_wrong(code: &'static str) -> WireError {
    let mut error = WireError::new(code, format!("unauthorized: {TOO_MANY_WRONG}"))
        .with_details(json!({ "code": "AUTH_RATE_LIMITED" }));
    (error.retryable, error.retry_after_ms) = (Some(true), Some(60_000));
    error
}

/// The first text of a client, before its time is up.
pub(crate) async fn first_text(gate: &Gate, socket: &mut Socket, deadline: Instant) -> Option<String> {
    loop {
        let message = tokio::select! {
            message = socket.recv() => message?.ok()?,
            () = sleep_until(deadline) => return None,
            () = gate.closing.requested() => return None,
        };
        match message {
            Message::Text(text) if text.len() <= FIRST_FRAME => return Some(text.as_str().to_owned()),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Text(_) | Message::Binary(_) | Message::Frame(_) | Message::Close(_) => return None,
        }
    }
}

async fn send_away(socket: &mut Socket, id: &str, away: SentAway) -> Option<Arc<Peer>> {
    if let Some(error) = &away.error {
        let _ = socket.text(frame::failure(id, error)).await;
    }
    tracing::debug!(reason = away.reason, "a client was sent away");
    close(socket, away.close, &away.reason).await;
    None
}

/// Checks and pairs; answers the client and the token of its device.
async fn admit(
    gate: &Gate,
    request: &frame::Request,
    arrival: Arrival,
    nonce: &str,
) -> Result<(Arc<Peer>, Option<hello::DeviceToken>), SentAway> {
    let shared = &gate.shared;
    let now = shared.now();
    let visit = Visit {
        local: arrival.local,
        control: arrival.control,
        has_own_origin: arrival.has_own_origin,
        nonce,
        now,
        token: shared.options.token.as_ref(),
        devices: &shared.hub.devices,
    };
    let entering = handshake::check(request, &visit)?;
    let mut token = None;
    if let Some(wanted) = &entering.device {
        pair(gate, wanted, arrival.local).await?;
        let issued = shared.hub.devices.token(&wanted.device, &wanted.role);
        token = issued.map(|(token, grant)| hello::DeviceToken { token, issued_at: grant.created_at_ms });
    }
    let number = shared.hub.next_number();
    let peer = Peer::new(NewPeer {
        number,
        connection: format!("{}-{number}", shared.hub.boot),
        dialect: Dialect::Openclaw,
        protocol: entering.protocol,
        role: entering.role,
        scopes: Scopes::of(&entering.scopes),
        // Clients of protocol 3 cannot say so.
        tool_events: entering.protocol < 4 || entering.connect.caps.iter().any(|cap| cap == "tool-events"),
        device: entering.device.as_ref().map(|wanted| wanted.device.clone()),
        client: entering.connect.client.clone(),
        connected_at: now,
        language: Language::default(),
    });
    let peer = Arc::new(peer);
    if entering.role == Role::Node {
        shared.hub.nodes.register(&peer, &entering.connect);
    }
    Ok((peer, token))
}

/// Pairs a device that is at this machine at once; another one has to be approved.
async fn pair(gate: &Gate, wanted: &super::devices::Wanted, local: bool) -> Result<(), SentAway> {
    let shared = &gate.shared;
    if shared.hub.devices.is_paired(wanted) {
        return Ok(());
    }
    let unusable = |message: String| SentAway::with(WireError::unavailable(message), CLOSE_POLICY);
    if local {
        let (task_shared, wanted) = (Arc::clone(shared), wanted.clone());
        let now = shared.now();
        let paired = tidegate_runtime::spawn_blocking("gateway.pair", move || {
            task_shared.hub.devices.pair(&wanted, now).map(|_| ())
        });
        return match paired.join().await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unusable(error.to_string())),
            Err(end) => Err(unusable(end.to_string())),
        };
    }
    let id = random_text::<16>().map_err(|error| unusable(error.to_string()))?;
    let (pending, new) = shared.hub.devices.ask(wanted, id, shared.now());
    if new {
        crate::dialect::openclaw::devices::tell_request(&shared.hub, &pending);
    }
    let error = WireError::new(frame::NOT_PAIRED, "pairing required")
        .with_details(json!({ "code": "PAIRING_REQUIRED", "requestId": pending.request_id }));
    Err(SentAway::with(error, CLOSE_POLICY))
}

/// Lets a client hear what happens.
pub(crate) fn join(gate: &Gate, peer: &Arc<Peer>) {
    join_with(gate, peer, |_| None);
}

/// The same for one that is told first where the broadcasts stand.
pub(crate) fn join_with(gate: &Gate, peer: &Arc<Peer>, hello: impl FnOnce(u64) -> Option<Utf8Bytes>) {
    if let Some(watching) = gate.shared.hub.join(Arc::clone(peer), hello) {
        pump::start(gate, watching);
    }
}

struct Connection {
    gate: Gate,
    socket: Socket,
    peer: Arc<Peer>,
}

type Goodbye = (u16, &'static str);

impl Connection {
    async fn live(&mut self) -> Goodbye {
        loop {
            let step = tokio::select! {
                biased;
                () = self.gate.closing.requested() => return Box::pin(self.last_words()).await,
                () = self.peer.outbox.changed() => self.write().await,
                message = self.socket.recv() => self.read(message),
            };
            if let ControlFlow::Break(goodbye) = step {
                return goodbye;
            }
        }
    }

    /// Writes what waits. A reader that is so slow that its queue overflows is let go in the middle of a frame.
    async fn write(&mut self) -> ControlFlow<Goodbye> {
        let Self { socket, peer, .. } = self;
        while let Some(Waiting { frame, alone }) = peer.outbox.next() {
            let bytes = frame.len();
            let sent = tokio::select! {
                biased;
                sent = socket.text(frame) => sent,
                ending = peer.outbox.ended() => return ControlFlow::Break(goodbye_of(ending)),
            };
            peer.outbox.wrote(bytes);
            if sent.is_err() {
                return ControlFlow::Break((CLOSE_NORMAL, ""));
            }
            if alone {
                Box::pin(tokio::time::sleep(BREATH)).await;
            }
        }
        match peer.outbox.ending() {
            Some(ending) => ControlFlow::Break(goodbye_of(ending)),
            None => ControlFlow::Continue(()),
        }
    }

    fn read(&self, message: Option<Result<Message, Error>>) -> ControlFlow<Goodbye> {
        match message {
            Some(Ok(Message::Text(text))) if text.len() > LARGEST_FRAME => {
                return ControlFlow::Break((CLOSE_TOO_LARGE, "message too big"));
            }
            Some(Ok(Message::Text(text))) => self.request(&text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            // The frames are text; whoever sends something else does not speak this.
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => {
                return ControlFlow::Break((1003, "text frames only"));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return ControlFlow::Break((CLOSE_NORMAL, "")),
        }
        ControlFlow::Continue(())
    }

    fn request(&self, text: &str) {
        let peer = &self.peer;
        let request = match frame::read(text) {
            Ok(request) => request,
            Err(no) => {
                let error = WireError::invalid(format!("invalid request frame: {}", no.problem));
                self.refuse(no.id.as_deref().unwrap_or("invalid"), error);
                return;
            }
        };
        let Some(place) = peer.begins() else {
            let mut error = WireError::unavailable("too many requests of this client are under way");
            (error.retryable, error.retry_after_ms) = (Some(true), Some(1000));
            self.refuse(&request.id, error);
            return;
        };
        let caller = Caller::new(self.gate.clone(), Arc::clone(peer), request.id.clone());
        let cut = self.gate.shared.cut.clone();
        let answer = async move {
            let (peer, later) = (Arc::clone(&caller.peer), Arc::clone(&caller.later));
            let answer = match methods::call(caller, &request).await {
                Ok(payload) => frame::response(&request.id, &payload),
                Err(error) => frame::failure(&request.id, &error),
            };
            if request.method == "chat.send" && peer.client.reads_late() {
                peer.outbox.put_alone(answer.into());
            } else {
                peer.send(answer);
            }
            let later = later.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(later) = later {
                later.await;
            }
            drop(place);
        };
        let task = async move {
            tokio::select! {
                () = answer => {}
                () = cut.requested() => {}
            }
        };
        spawn("gateway.ws.request", self.gate.shared.tasks.track_future(task));
    }

    fn refuse(&self, id: &str, error: WireError) {
        let error = match self.peer.dialect {
            Dialect::Native => native::in_our_codes(error, self.peer.language),
            Dialect::Openclaw | Dialect::Openfoal => error,
        };
        self.peer.send(frame::failure(id, &error));
    }

    /// The gateway closes: tells so, lets runs end, and says goodbye.
    async fn last_words(&mut self) -> Goodbye {
        if self.peer.dialect != Dialect::Openfoal {
            let back = self.gate.shared.back_in_ms.get();
            let reason = if back.is_some() { "gateway restarting" } else { "gateway stopping" };
            self.peer.tell("shutdown", &json!({ "reason": reason, "restartExpectedMs": back }));
        }
        let until = Instant::now() + LAST_WORDS;
        loop {
            if let ControlFlow::Break(goodbye) = self.write().await {
                return goodbye;
            }
            // A request that is being answered is heard to its end too: what asked for the restart is one.
            let telling =
                self.gate.shared.hub.telling.load(Ordering::Acquire) > 0 || self.peer.has_requests();
            if (!telling && self.peer.outbox.is_empty()) || Instant::now() >= until {
                return (CLOSE_RESTART, "service restart");
            }
            let _ = timeout(Duration::from_millis(100), self.peer.outbox.changed()).await;
        }
    }

    fn leave(&self) {
        let hub = &self.gate.shared.hub;
        hub.leave(&self.peer);
        self.peer.subscriptions.close_all();
        hub.nodes.unregister(&self.peer);
    }
}

fn goodbye_of(ending: Ending) -> Goodbye {
    match ending {
        Ending::Slow => (CLOSE_POLICY, "slow consumer"),
        Ending::Removed => (CLOSE_POLICY, "device removed"),
    }
}

/// Says goodbye, and waits a moment for the other side to hear it.
pub(crate) async fn close(socket: &mut Socket, code: u16, reason: &str) {
    let goodbye = async {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        let _ = socket.close(frame).await;
        while let Some(Ok(_)) = socket.recv().await {}
    };
    let _ = timeout(GOODBYE, goodbye).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client costs while it does nothing, beside its buffers; the handshake and the goodbye are in boxes of their own.
    const IDLE: usize = 2048;

    fn size_of_future<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_client_that_waits_takes_little_room() {
        let size = size_of_future(serve);
        assert!(size <= IDLE, "{size} bytes");
        let native = size_of_future(|gate, socket, language, ()| serve_native(gate, socket, language));
        assert!(native <= IDLE, "{native} bytes");
    }
}
