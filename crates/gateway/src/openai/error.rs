//! Errors as OpenAI's SDKs read them: `{error: {message, type, param, code}}` with the status they act on.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate_protocol::{ErrorBody, ErrorCode};

use crate::answer::Refusal;

/// Something in the body of a request is wrong; `param` says where.
pub(super) fn invalid(param: &str, message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, message).with_details(json!({ "param": param }))
}

/// What is named by `param` does not exist.
pub(super) fn missing(param: &str, message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::NotFound, message).with_details(json!({ "param": param }))
}

/// A failure of a run, with the status its reason deserves: programs wait after 429, and give up after 404.
pub(super) fn failed(error: ErrorBody) -> Refusal {
    let reason = error.details.as_ref().and_then(|details| details["reason"].as_str());
    let status = match reason {
        Some("rateLimit") => Some(StatusCode::TOO_MANY_REQUESTS),
        Some("overloaded") => Some(StatusCode::SERVICE_UNAVAILABLE),
        Some("noSuchModel") => Some(StatusCode::NOT_FOUND),
        Some("format" | "refused") => Some(StatusCode::BAD_REQUEST),
        Some("timeout") => Some(StatusCode::GATEWAY_TIMEOUT),
        _ => None,
    };
    let refusal = Refusal::from(error);
    match status {
        Some(status) => refusal.with_status(status),
        None => refusal,
    }
}

/// An error as the SDKs expect it.
pub(crate) fn error_body(status: StatusCode, body: &ErrorBody) -> Value {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    let param = body.details.as_ref().map(|details| &details["param"]).filter(|param| param.is_string());
    json!({"error": {"message": body.message, "type": kind, "param": param, "code": body.code}})
}
