//! The dialect `openfoal`, spoken on the path `/ws`: its own handshake, codes and events over the same table of methods.

pub(crate) mod answers;
pub(crate) mod house;
pub(crate) mod rows;
pub(crate) mod rules;
mod story;

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Language;
use tidegate_runtime::iso_timestamp;
use tokio::time::Instant;

use crate::gate::Gate;
use crate::methods::validate::{self, Unnamed};
use crate::methods::{self, Caller, Repeat};
use crate::ws::connect::Client;
use crate::ws::connection::{Arrival, close, first_text, join, too_many_wrong};
use crate::ws::frame::{self, Request, WireError};
use crate::ws::handshake::CLOSE_POLICY;
use crate::ws::peer::{Dialect, NewPeer, Peer};
use crate::ws::scope::{self, Role, Scopes};
use crate::ws::socket::Socket;

/// What is spoken here.
const PROTOCOL: &str = "1.0.0";
/// Frames that somebody may send before they say who they are.
const TRIES: u32 = 16;

/// The handshake: everything but `connect` is refused until it went well.
pub(crate) async fn enter(
    gate: &Gate,
    socket: &mut Socket,
    arrival: Arrival,
    deadline: Instant,
) -> Option<Arc<Peer>> {
    for _ in 0..TRIES {
        let text = first_text(gate, socket, deadline).await?;
        let (id, outcome) = match frame::read(&text) {
            Ok(request) => (request.id.clone(), connect(gate, &request, arrival)),
            Err(no) => {
                let error = WireError::invalid(format!("invalid request frame: {}", no.problem));
                (no.id.unwrap_or_else(|| "invalid".to_owned()), Err(error))
            }
        };
        match outcome {
            Ok(peer) => {
                let answer = json!({
                    "protocolVersion": PROTOCOL, "serverTime": iso_timestamp(gate.shared.now()),
                    "principal": principal(gate),
                });
                let answer = frame::response(&id, &frame::to_json(&answer));
                socket.text(answer).await.ok()?;
                let peer = Arc::new(peer);
                join(gate, &peer);
                return Some(peer);
            }
            Err(error) => socket.text(frame::failure(&id, &error)).await.ok()?,
        }
    }
    close(socket, CLOSE_POLICY, "connect first").await;
    None
}

fn principal(gate: &Gate) -> Value {
    let actor = gate.principal().actor().to_owned();
    let workspace = gate.engine().settings().scope(None).map(|scope| scope.workspace.to_string());
    json!({
        "subject": actor, "userId": actor, "tenantId": gate.engine().tenant(),
        "workspaceIds": workspace.into_iter().collect::<Vec<_>>(), "roles": ["owner"], "authSource": "token",
    })
}

fn connect(gate: &Gate, request: &Request, arrival: Arrival) -> Result<Peer, WireError> {
    if request.method != "connect" {
        return Err(WireError::new("AUTH_REQUIRED", "the first request must be connect"));
    }
    let params = request.params.as_ref().unwrap_or(&Value::Null);
    let given = params["auth"]["token"].as_str().or_else(|| params["authToken"].as_str());
    let token = gate.shared.options.token.as_ref();
    if !arrival.control && !given.zip(token).is_some_and(|(given, token)| token.is(given)) {
        if given.is_some() && gate.shared.guesses.wrong(arrival.from, gate.shared.now()) {
            return Err(too_many_wrong("UNAUTHORIZED"));
        }
        let message = "the token is missing or wrong; it is in credentials/local-token of the home";
        return Err(WireError::new("UNAUTHORIZED", message));
    }
    let tenant = params["tenantId"].as_str();
    if tenant.is_some_and(|tenant| tenant != gate.engine().tenant().as_str()) {
        return Err(WireError::new("TENANT_SCOPE_MISMATCH", "that tenant is not yours"));
    }
    let number = gate.shared.hub.next_number();
    Ok(Peer::new(NewPeer {
        number,
        connection: format!("{}-{number}", gate.shared.hub.boot),
        dialect: Dialect::Openfoal,
        protocol: 1,
        role: Role::Operator,
        scopes: Scopes::of(&["operator.admin".to_owned()]),
        client: Client::named("openfoal"),
        device: None,
        tool_events: true,
        connected_at: gate.shared.now(),
        language: Language::default(),
    }))
}

/// Checks a call against its row, and makes it.
pub(crate) async fn call(caller: Caller, request: &Request) -> Result<String, WireError> {
    let name = request.method.as_str();
    if name == "connect" {
        return Err(WireError::invalid("this connection has said who it is already"));
    }
    let Some(method) = methods::find(Dialect::Openfoal, name) else {
        return Err(WireError::new("METHOD_NOT_FOUND", format!("unknown method: {name}")));
    };
    let permitted = scope::permit(caller.peer.role, caller.peer.scopes, method.need);
    permitted.map_err(|message| WireError::new("FORBIDDEN", message))?;
    let params = request.params.clone().unwrap_or_else(|| json!({}));
    let key = params["idempotencyKey"].as_str().is_some_and(|key| !key.trim().is_empty());
    if matches!(method.repeat, Repeat::Keyed | Repeat::Run) && !key {
        return Err(WireError::invalid(format!("{name} needs an idempotencyKey")));
    }
    if let Some(tenant) = params["tenantId"].as_str()
        && tenant != caller.gate.engine().tenant().as_str()
    {
        return Err(WireError::new("TENANT_SCOPE_MISMATCH", "that tenant is not yours"));
    }
    if let Some(problem) = validate::problems(method.schema(), &params, Unnamed::Ignored) {
        return Err(methods::invalid_params(name, &problem));
    }
    methods::make(method, caller, params).await.map_err(in_its_codes)
}

/// An error in the codes of this dialect.
fn in_its_codes(mut error: WireError) -> WireError {
    let code = error.details.as_ref().and_then(|details| details["code"].as_str()).map(ErrorCode::parse);
    error.code = match (error.code, code) {
        (_, Some(code)) => code_of(code),
        (frame::UNAVAILABLE, None) => "INTERNAL_ERROR",
        (code, None) => code,
    };
    error
}

pub(crate) fn code_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::PolicyDenied | ErrorCode::BudgetExceeded => "POLICY_DENIED",
        ErrorCode::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
        ErrorCode::SessionBusy => "SESSION_BUSY",
        ErrorCode::ModelUnavailable | ErrorCode::AuthRequired | ErrorCode::CredentialsUnreadable => {
            "MODEL_UNAVAILABLE"
        }
        ErrorCode::Aborted => "ABORTED",
        ErrorCode::Unauthorized => "UNAUTHORIZED",
        ErrorCode::Forbidden => "FORBIDDEN",
        ErrorCode::NotFound
        | ErrorCode::BadRequest
        | ErrorCode::InvalidValue
        | ErrorCode::MissingValue
        | ErrorCode::PayloadTooLarge
        | ErrorCode::UnsupportedProvider => frame::INVALID_REQUEST,
        _ => "INTERNAL_ERROR",
    }
}
