//! Our own dialect, spoken on `/api/v1/socket` by the page and the command line: the same functions as the addresses below
//! `/api/v1`, with their codes, on one connection that also tells what happens.
//!
//! Who may enter is what the address wants; there is no handshake. `house`, `conversations` and `runs` have the methods,
//! `watch` follows conversations, `news` tells everybody what changed.

pub(crate) mod conversations;
pub(crate) mod house;
pub(crate) mod news;
pub(crate) mod runs;
pub(crate) mod watch;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{
    ApprovalNews, Delta, Done, GoingDown, HealthView, Hello, MissedEvents, Note, RunChanged, RunNews,
    RunWaits, ServerInfo, SessionsChanged, Snapshot, SocketPolicy, Tick, ToolNews,
};
use tidegate_protocol::schema::Shape;
use tidegate_runtime::catalogue::Language;

use crate::api::status::who_is_there;
use crate::gate::{Entrance, Gate, VERSION};
use crate::methods::validate::{self, Unnamed};
use crate::methods::{self, Caller};
use crate::ws::LARGEST_FRAME;
use crate::ws::connect::Client;
use crate::ws::connection::join_with;
use crate::ws::frame::{self, Request, WireError};
use crate::ws::outbox::LARGEST;
use crate::ws::peer::{Dialect, NewPeer, Peer, REQUESTS};
use crate::ws::scope::{self, Role, Scopes};

/// The version of this dialect.
const PROTOCOL: u32 = 1;
/// How often a tick is told.
pub(crate) const TICK: Duration = Duration::from_secs(15);

macro_rules! events {
    ($($name:literal $payload:ty;)+) => {
        /// Everything that is told.
        pub(crate) static EVENTS: &[&str] = &[$($name),+];

        /// What each carries, in their order; only generators ask.
        pub(crate) static PAYLOADS: &[Shape] = &[$(Shape::of::<$payload>()),+];
    };
}

events! {
    "hello" Hello;
    "tick" Tick;
    "shutdown" GoingDown;
    "missed" MissedEvents;
    "health" HealthView;
    "sessions.changed" SessionsChanged;
    "run.changed" RunNews;
    "approval.asked" ApprovalNews;
    "approval.settled" ApprovalNews;
    "session.snapshot" Snapshot;
    "session.run" RunChanged;
    "session.delta" Delta;
    "session.tool" ToolNews;
    "session.note" Note;
    "session.waits" RunWaits;
    "session.done" Done;
}

/// Lets a client in: its first frame is the hello, and it hears every broadcast after the one that names.
pub(crate) fn enter(gate: &Gate, language: Language) -> Option<Arc<Peer>> {
    let shared = &gate.shared;
    let me =
        who_is_there(gate).inspect_err(|refusal| tracing::warn!(?refusal, "a client cannot enter")).ok()?;
    let number = shared.hub.next_number();
    let mut client = Client::named("tidegate");
    VERSION.clone_into(&mut client.version);
    // Others need not hear of every command that asks something.
    let mode = if matches!(gate.entrance, Entrance::Control) { "cli" } else { "webchat" };
    mode.clone_into(&mut client.mode);
    let peer = Arc::new(Peer::new(NewPeer {
        number,
        connection: format!("{}-{number}", shared.hub.boot),
        dialect: Dialect::Native,
        protocol: PROTOCOL,
        role: Role::Operator,
        // Whoever entered owns the home: every door asks for a proof of that.
        scopes: Scopes::of(&["operator.admin".to_owned()]),
        client,
        device: None,
        tool_events: true,
        connected_at: shared.now(),
        language,
    }));
    let hello = |seq| {
        let hello = Hello {
            protocol: PROTOCOL,
            server: ServerInfo {
                name: "tidegate".to_owned(),
                version: VERSION.to_owned(),
                boot_id: shared.hub.boot.clone(),
                conn_id: peer.connection.clone(),
            },
            seq,
            me,
            policy: SocketPolicy {
                tick_ms: u64::try_from(TICK.as_millis()).unwrap_or(u64::MAX),
                max_frame_bytes: LARGEST_FRAME as u64,
                max_queued_bytes: LARGEST as u64,
                max_requests: REQUESTS,
            },
            methods: methods::advertised(Dialect::Native).into_iter().map(str::to_owned).collect(),
            events: EVENTS.iter().map(|&event| event.to_owned()).collect(),
        };
        Some(frame::event("hello", &frame::to_json(&hello), None, None).into())
    };
    join_with(gate, &peer, hello);
    Some(peer)
}

/// Checks a call against its row, and makes it.
pub(crate) async fn call(caller: Caller, request: &Request) -> Result<String, WireError> {
    let language = caller.peer.language;
    checked(caller, request).await.map_err(|error| in_our_codes(error, language))
}

async fn checked(caller: Caller, request: &Request) -> Result<String, WireError> {
    let name = request.method.as_str();
    let Some(method) = methods::find(Dialect::Native, name) else {
        let unknown = WireError::invalid(format!("there is no method {name}"));
        return Err(unknown.with_details(json!({ "code": ErrorCode::NotFound })));
    };
    let permitted = scope::permit(caller.peer.role, caller.peer.scopes, method.need);
    permitted.map_err(|message| {
        WireError::invalid(message).with_details(json!({ "code": ErrorCode::Forbidden }))
    })?;
    let params = request.params.clone().unwrap_or_else(|| json!({}));
    if let Some(problem) = validate::problems(method.schema(), &params, Unnamed::Refused) {
        return Err(methods::invalid_params(name, &problem));
    }
    methods::make(method, caller, params).await
}

/// An error in the codes of the product, with how to mend it.
pub(crate) fn in_our_codes(mut error: WireError, language: Language) -> WireError {
    let named = error.details.take().and_then(|details| details["code"].as_str().map(ErrorCode::parse));
    let code = named.unwrap_or(match error.code {
        frame::INVALID_REQUEST => ErrorCode::BadRequest,
        // Only who asks too much at once is told when to ask again.
        frame::UNAVAILABLE if error.retry_after_ms.is_some() => ErrorCode::TooManyRequests,
        frame::UNAVAILABLE => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    });
    error.code = code.as_str();
    error.retryable = code.is_retryable().then_some(true);
    error.hinted = Some(language);
    error
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::ErrorBody;

    use super::*;

    #[test]
    fn errors_keep_their_code_and_say_how_to_mend_them() {
        let told = |error| in_our_codes(error, Language::English).shape();
        let closing = WireError::from(&ErrorBody::new(ErrorCode::Closing, "bye"));
        let closing = told(closing);
        assert_eq!((&closing["code"], &closing["retryable"]), (&json!("CLOSING"), &json!(true)));
        assert!(closing["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
        assert_eq!(told(WireError::invalid("no")), json!({ "code": "BAD_REQUEST", "message": "no" }));
        let mut busy = WireError::unavailable("many");
        busy.retry_after_ms = Some(1000);
        assert_eq!(told(busy)["code"], "TOO_MANY_REQUESTS");
    }
}
