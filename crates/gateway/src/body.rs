//! Reading a request's body: bounded, in time, and JSON.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tidegate_protocol::ErrorCode;

use crate::answer::Refusal;

/// The largest text somebody may send, in bytes.
pub(crate) const LARGEST_TEXT: usize = 1024 * 1024;
/// Room for what surrounds the text.
const LARGEST: usize = LARGEST_TEXT + 64 * 1024;
/// How much is read past that before the connection is closed.
const FORGOTTEN: usize = 16 * 1024 * 1024;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the body as `T`.
pub(crate) async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    let (parts, body) = request.into_parts();
    read_parts(&parts.headers, body, LARGEST).await
}

/// The same for a body of at most `largest` bytes, whose headers somebody still needs.
pub(crate) async fn read_parts<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    largest: usize,
) -> Result<T, Refusal> {
    if !is_json(headers) {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Err(Refusal::new(ErrorCode::UnsupportedMediaType, message));
    }
    let bytes = bytes(body, largest).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Refusal::new(ErrorCode::BadRequest, format!("the body is not what this address takes: {error}"))
    })
}

/// The body as it is.
pub(crate) async fn bytes(body: Body, largest: usize) -> Result<Vec<u8>, Refusal> {
    let arrived = tokio::time::timeout(PATIENCE, collect(body, largest)).await;
    arrived.unwrap_or_else(|_| Err(Refusal::new(ErrorCode::BadRequest, "the body did not arrive in time")))
}

/// The whole body. One that is too large is read on and forgotten for a while: a caller that still writes would lose
/// the answer when the connection closes.
async fn collect(body: Body, largest: usize) -> Result<Vec<u8>, Refusal> {
    let mut chunks = body.into_data_stream();
    let (mut bytes, mut forgotten) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let ended = |_| Refusal::new(ErrorCode::BadRequest, "the body ended early");
        let chunk = chunk.map_err(ended)?;
        if forgotten == 0 && bytes.len() + chunk.len() <= largest {
            bytes.extend_from_slice(&chunk);
            continue;
        }
        forgotten += chunk.len();
        if forgotten > FORGOTTEN {
            break;
        }
    }
    if forgotten > 0 {
        let message = format!("a body may have {largest} bytes here");
        return Err(Refusal::new(ErrorCode::PayloadTooLarge, message));
    }
    Ok(bytes)
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
