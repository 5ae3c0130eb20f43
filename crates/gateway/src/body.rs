//! Reading a request's body: bounded, in time, and JSON.

use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::de::DeserializeOwned;
use tidegate_protocol::ErrorCode;

use crate::answer::Refusal;

/// The largest text somebody may send, in bytes.
pub(crate) const LARGEST_TEXT: usize = 1024 * 1024;
/// Room for what surrounds the text.
const LARGEST: usize = LARGEST_TEXT + 64 * 1024;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the body as `T`.
pub(crate) async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    if !is_json(request.headers()) {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Err(Refusal::new(ErrorCode::UnsupportedMediaType, message));
    }
    if announced(request.headers()).is_some_and(|length| length > LARGEST as u64) {
        return Err(too_large());
    }
    let reading = axum::body::to_bytes(request.into_body(), LARGEST);
    let Ok(bytes) = tokio::time::timeout(PATIENCE, reading).await else {
        return Err(Refusal::new(ErrorCode::BadRequest, "the body did not arrive in time"));
    };
    // Too long, or the caller went away, who reads no answer.
    let bytes = bytes.map_err(|_| too_large())?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Refusal::new(ErrorCode::BadRequest, format!("the body is not what this address takes: {error}"))
    })
}

/// Refuses an empty or too long text.
pub(crate) fn check_text(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::new(ErrorCode::BadRequest, "the text is empty"));
    }
    if text.len() > LARGEST_TEXT {
        return Err(too_large());
    }
    Ok(())
}

/// Refuses a key that could not be a caller's own name for a request.
pub(crate) fn check_key(key: &str) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > 200 || key.chars().any(char::is_control) {
        return Err(Refusal::new(
            ErrorCode::BadRequest,
            "the key must be 1 to 200 bytes without control characters",
        ));
    }
    Ok(())
}

fn too_large() -> Refusal {
    Refusal::new(ErrorCode::PayloadTooLarge, format!("a text may have {LARGEST_TEXT} bytes"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
