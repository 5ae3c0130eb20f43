//! The pure parts of the WebSocket protocol as recorded cases ask for them. For tests only.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tidegate_engine::Settings;

use crate::dialect::openclaw::keys;
use crate::methods;
use crate::methods::validate::{self, Unnamed};
use crate::token::LocalToken;
use crate::ws::device::{Form, PublicKey, Signed};
use crate::ws::frame::{self, WireError};
use crate::ws::peer::Dialect;
use crate::ws::{connect, handshake, local};

/// What is wrong with the parameters of a method, or with a frame; an error when there is no such method.
pub fn problems(method: &str, params: &Value) -> Result<Option<String>, String> {
    match method {
        "frame" => Ok(frame::problems_of(params)),
        "connect" => Ok(validate::problems(&connect::SCHEMA, params, Unnamed::Refused)),
        name => {
            let row = methods::find(Dialect::Openclaw, name).ok_or_else(|| format!("no method {name}"))?;
            Ok(validate::problems(row.schema(), params, Unnamed::Refused))
        }
    }
}

/// An error as it is written.
pub fn error_shape(code: &'static str, message: &str, retryable: Option<bool>, after: Option<u64>) -> Value {
    let mut error = WireError::new(code, message);
    (error.retryable, error.retry_after_ms) = (retryable, after);
    error.shape()
}

/// The text that a device signs.
pub fn device_text(params: &Value) -> String {
    let text = |name: &str| params[name].as_str().unwrap_or_default();
    let scopes: Vec<String> = params["scopes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let signed = Signed {
        device: text("deviceId"),
        client: text("clientId"),
        mode: text("clientMode"),
        role: text("role"),
        scopes: &scopes,
        at: params["signedAtMs"].as_i64().unwrap_or_default(),
        token: text("token"),
        nonce: text("nonce"),
        platform: text("platform"),
        family: text("deviceFamily"),
    };
    let form = match text("version") {
        "v1" => Form::V1,
        "v3" => Form::V3,
        _ if signed.nonce.is_empty() => Form::V1,
        _ => Form::V2,
    };
    signed.text(form)
}

/// What a device with this seed shows and signs.
pub fn device_signed(seed: &[u8], params: &Value) -> Result<Value, String> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|error| error.to_string())?;
    let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let key = PublicKey::read(&public).ok_or("a key of our own cannot be read")?;
    let payload = device_text(params);
    let signature = BASE64_URL_SAFE_NO_PAD.encode(pair.sign(payload.as_bytes()));
    let verified = key.verifies_text(&payload, &signature);
    Ok(json!({
        "publicKey": public, "deviceId": key.device(), "payload": payload, "signature": signature,
        "verified": verified,
    }))
}

/// Whether a signature is over a text, and what the key is called; nothing for what is no key.
pub fn device_verified(key: &str, payload: &str, signature: &str) -> Option<(bool, String, String)> {
    let key = PublicKey::read(key)?;
    Some((key.verifies_text(payload, signature), key.device(), key.text()))
}

/// Whether a request comes from this machine.
pub fn is_local(address: &str, headers: &[(String, String)]) -> bool {
    let mut map = axum::http::HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<axum::http::HeaderName>(), value.parse()) {
            map.insert(name, value);
        }
    }
    local::is_local(address.parse().ok(), &map)
}

/// A merge patch.
pub fn merged(base: &Value, patch: &Value) -> Value {
    tidegate_config::merged(base, patch)
}

/// What comes of a connection that shows this token to a home with that one.
pub fn token_shown(token: Option<&str>, given: Option<&str>) -> Value {
    let token = token.map(LocalToken::of);
    match handshake::shared_secret(given, token.as_ref()) {
        Ok(()) => json!({ "ok": true, "method": "token" }),
        Err(away) => {
            let code = away.error.and_then(|error| Some(error.details?["code"].as_str()?.to_owned()));
            let reason = match code.as_deref() {
                Some("AUTH_TOKEN_MISSING") => "token_missing",
                Some("AUTH_TOKEN_MISMATCH") => "token_mismatch",
                _ => "token_missing_config",
            };
            json!({ "ok": false, "reason": reason })
        }
    }
}

/// What a client's name for a conversation is called by us.
pub fn session_called(settings: &Settings, name: &str) -> Result<String, String> {
    let tenant = settings.scope(None).map_err(|error| error.to_string())?.tenant;
    let key = keys::read(settings, &tenant, None, name).map_err(|error| error.to_string())?;
    Ok(keys::write(&key))
}
