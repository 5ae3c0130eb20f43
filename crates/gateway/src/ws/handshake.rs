//! Whether a client may enter, check by check in the order that clients rely on. Pure but for the devices it asks.

use serde_json::{Value, json};

use super::connect::{Auth, Connect, SCHEMA};
use super::device::{PublicKey, Signed};
use super::devices::{Describes, Devices, Wanted};
use super::frame::{self, INVALID_REQUEST, NOT_PAIRED, Request, WireError};
use super::scope::Role;
use crate::methods::validate::{self, Unnamed};
use crate::token::LocalToken;

/// The protocols that are spoken here.
pub(crate) const OLDEST: u32 = 3;
pub(crate) const NEWEST: u32 = 4;
/// How far a device's clock may be off.
const SKEW_MS: i64 = 600_000;
/// Bytes of a close reason.
const REASON: usize = 120;

/// Who turns up where.
pub(crate) struct Visit<'a> {
    /// At this machine, without a proxy between.
    pub(crate) local: bool,
    /// Through the control socket: the file's mode is the proof.
    pub(crate) control: bool,
    /// The browser said where its page is from, and that is here.
    pub(crate) has_own_origin: bool,
    pub(crate) nonce: &'a str,
    pub(crate) now: i64,
    pub(crate) token: Option<&'a LocalToken>,
    pub(crate) devices: &'a Devices,
}

/// A client that may enter, once its device is paired.
#[derive(Debug, Clone)]
pub(crate) struct Entering {
    pub(crate) connect: Connect,
    pub(crate) protocol: u32,
    pub(crate) role: Role,
    pub(crate) scopes: Vec<String>,
    /// The device that has to be paired.
    pub(crate) device: Option<Wanted>,
}

/// Why a client is sent away.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SentAway {
    /// Told in a response first, unless there is no request to answer.
    pub(crate) error: Option<WireError>,
    pub(crate) close: u16,
    pub(crate) reason: String,
    /// A secret was given, and it was wrong.
    pub(crate) guessed: bool,
}

pub(crate) const CLOSE_POLICY: u16 = 1008;
const CLOSE_PROTOCOL: u16 = 1002;

impl SentAway {
    pub(crate) fn with(error: WireError, close: u16) -> Self {
        let reason = shortened(&error.message).to_owned();
        Self { error: Some(error), close, reason, guessed: false }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::with(WireError::new(INVALID_REQUEST, message), CLOSE_POLICY)
    }
}

/// As much of a text as a close frame takes.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON)]
}

/// The request of a first frame.
pub(crate) fn first(text: &str) -> Result<Request, SentAway> {
    let request = frame::read(text).map_err(|_| SentAway {
        error: None,
        close: CLOSE_POLICY,
        reason: "invalid request frame".to_owned(),
        guessed: false,
    })?;
    Ok(request)
}

/// All that can be checked before a device is paired.
pub(crate) fn check(request: &Request, visit: &Visit<'_>) -> Result<Entering, SentAway> {
    if request.method != "connect" {
        return Err(SentAway::invalid("invalid handshake: first request must be connect"));
    }
    let connect = params_of(request.params.as_ref())?;
    if connect.max_protocol < OLDEST || connect.min_protocol > NEWEST {
        let error = WireError::invalid("protocol mismatch").with_details(json!({
            "expectedProtocol": NEWEST, "oldestProtocol": OLDEST, "newestProtocol": NEWEST,
        }));
        return Err(SentAway::with(error, CLOSE_PROTOCOL));
    }
    let Some(role) = Role::parse(connect.role.as_deref().unwrap_or("operator")) else {
        return Err(SentAway::invalid("invalid role"));
    };
    if connect.client.is_page() && !visit.control && !visit.has_own_origin {
        return Err(SentAway::invalid("origin missing or invalid"));
    }
    let scopes = match role {
        Role::Operator if connect.scopes.is_empty() => vec!["operator.admin".to_owned()],
        Role::Operator => connect.scopes.clone(),
        Role::Node => Vec::new(),
    };
    let guesses = connect.auth.as_ref().is_some_and(Auth::has_secret);
    let proven = prove(&connect, role, &scopes, visit);
    let device = proven.map_err(|away| SentAway { guessed: guesses, ..away })?;
    let protocol = connect.max_protocol.min(NEWEST);
    Ok(Entering { connect, protocol, role, scopes, device })
}

fn params_of(params: Option<&Value>) -> Result<Connect, SentAway> {
    let invalid = |problem: String| SentAway::invalid(format!("invalid connect params: {problem}"));
    let params = params.unwrap_or(&Value::Null);
    let newer =
        params.get("maxProtocol").and_then(Value::as_u64).is_some_and(|newest| newest >= u64::from(NEWEST));
    let unnamed = if newer { Unnamed::Ignored } else { Unnamed::Refused };
    if let Some(problem) = validate::problems(&SCHEMA, params, unnamed) {
        return Err(invalid(problem));
    }
    serde_json::from_value(params.clone()).map_err(|error| invalid(error.to_string()))
}

/// The proof of identity: the device's own, and the secret it shares with the gateway.
fn prove(
    connect: &Connect,
    role: Role,
    scopes: &[String],
    visit: &Visit<'_>,
) -> Result<Option<Wanted>, SentAway> {
    let auth = connect.auth.clone().unwrap_or_default();
    let given = auth.token.as_deref().filter(|token| !token.is_empty());
    let device_token = auth.device_token.as_deref().or(given);
    let Some(device) = &connect.device else {
        if visit.control {
            return Ok(None);
        }
        if connect.client.is_control_ui() {
            return Err(SentAway::invalid("control ui requires HTTPS or localhost (secure context)"));
        }
        if given.is_none() {
            return Err(SentAway::with(WireError::new(NOT_PAIRED, "device identity required"), CLOSE_POLICY));
        }
        return shared_secret(given, visit.token).map(|()| None);
    };
    let Some(key) = PublicKey::read(&device.public_key) else {
        return Err(SentAway::invalid("device public key invalid"));
    };
    if device.id != key.device() {
        return Err(SentAway::invalid("device identity mismatch"));
    }
    if (visit.now - device.signed_at).abs() > SKEW_MS {
        return Err(SentAway::invalid("device signature expired"));
    }
    let nonce = device.nonce.as_deref().unwrap_or_default();
    if nonce.is_empty() && !visit.local && !visit.control {
        return Err(SentAway::invalid("device nonce required"));
    }
    if !nonce.is_empty() && nonce != visit.nonce {
        return Err(SentAway::invalid("device nonce mismatch"));
    }
    let signed = Signed {
        device: &device.id,
        client: &connect.client.id,
        mode: &connect.client.mode,
        role: role.as_str(),
        scopes: &connect.scopes,
        at: device.signed_at,
        token: device_token.unwrap_or_default(),
        nonce,
        platform: &connect.client.platform,
        family: connect.client.device_family.as_deref().unwrap_or_default(),
    };
    let shared = Signed { token: given.unwrap_or_default(), ..signed };
    if !signed.is_signed(&key, &device.signature) && !shared.is_signed(&key, &device.signature) {
        return Err(SentAway::invalid("device signature invalid"));
    }
    let by_device = |token| visit.devices.is_token(&device.id, role.as_str(), scopes, token);
    if !visit.control && !device_token.is_some_and(by_device) {
        shared_secret(given, visit.token)?;
    }
    Ok(Some(wanted(connect, &key, role, scopes)))
}

fn wanted(connect: &Connect, key: &PublicKey, role: Role, scopes: &[String]) -> Wanted {
    let client = &connect.client;
    Wanted {
        device: key.device(),
        key: key.text(),
        role: role.as_str().to_owned(),
        scopes: scopes.to_vec(),
        describes: Describes {
            display_name: client.display_name.clone(),
            platform: Some(client.platform.clone()),
            client_id: Some(client.id.clone()),
            client_mode: Some(client.mode.clone()),
        },
    }
}

pub(crate) fn shared_secret(given: Option<&str>, token: Option<&LocalToken>) -> Result<(), SentAway> {
    let refused = |why: &str, code: &str| {
        let error = WireError::invalid(format!("unauthorized: {why}")).with_details(json!({ "code": code }));
        Err(SentAway::with(error, CLOSE_POLICY))
    };
    let Some(token) = token else {
        return refused("nobody can log in here", "AUTH_REQUIRED");
    };
    match given {
        None => refused(
            "gateway token missing (it is in credentials/local-token of the home)",
            "AUTH_TOKEN_MISSING",
        ),
        Some(given) if token.is(given) => Ok(()),
        Some(_) => refused(
            "gateway token mismatch (it is in credentials/local-token of the home)",
            "AUTH_TOKEN_MISMATCH",
        ),
    }
}
