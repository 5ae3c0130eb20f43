//! Answers: JSON, and refusals with a stable code, in the dialect of the path and the language of the caller.
//!
//! A refusal travels through the router as an [`ErrorBody`] beside an empty response; [`dress`] writes it out at the
//! very end, so that every refusal of every layer looks the same.

use axum::body::Body;
use axum::http::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_engine::{EngineError, SettingsError};
use tidegate_protocol::api::{Failure, Problem};
use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::catalogue::Language;
use tidegate_storage::StoreError;

use crate::{openai, texts};

/// A refusal.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    body: ErrorBody,
}

pub(crate) type Answered = Result<Response, Refusal>;

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::from(ErrorBody::new(code, message))
    }

    pub(crate) fn body(&self) -> &ErrorBody {
        &self.body
    }

    /// With a status that is not the code's usual one.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    /// With what programs read besides the words.
    pub(crate) fn with_details(mut self, details: serde_json::Value) -> Self {
        self.body.details = Some(details);
        self
    }
}

impl From<ErrorBody> for Refusal {
    fn from(body: ErrorBody) -> Self {
        Self { status: status(body.code), body }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        error.body().into()
    }
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        error.body().into()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        ErrorBody::from(&error).into()
    }
}

/// The status of a code where nothing else is said.
fn status(code: ErrorCode) -> StatusCode {
    use ErrorCode as Code;
    match code {
        Code::Unauthorized | Code::LoginCodeInvalid => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::PolicyDenied => StatusCode::FORBIDDEN,
        // Not 429: programs repeat that by themselves, and a day's budget is not free again in a minute.
        Code::BudgetExceeded => StatusCode::PAYMENT_REQUIRED,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Code::BadRequest
        | Code::InvalidValue
        | Code::MissingValue
        | Code::AskInputRequired
        | Code::UnsupportedProvider
        | Code::ContextOverflow
        | Code::ConfigSyntax
        | Code::ConfigInvalid
        | Code::ConfigInclude
        | Code::ConfigEnvMissing
        | Code::ConfigPath
        | Code::ConfigValue
        | Code::AuthRequired => StatusCode::BAD_REQUEST,
        Code::ConfigConflict | Code::IdempotencyConflict | Code::SessionBusy | Code::Aborted => {
            StatusCode::CONFLICT
        }
        Code::ModelUnavailable | Code::CredentialsUnreadable => StatusCode::BAD_GATEWAY,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Closing
        | Code::StorageFull
        | Code::StorageUnavailable
        | Code::StorageReadOnly
        | Code::StorageIo
        | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(code = %self.body.code, message = self.body.message, "a request failed");
        }
        response.extensions_mut().insert(self.body);
        response
    }
}

pub(crate) fn json(value: &impl Serialize) -> Answered {
    json_with(StatusCode::OK, value)
}

pub(crate) fn json_with(status: StatusCode, value: &impl Serialize) -> Answered {
    let body = serde_json::to_vec(value).map_err(|error| {
        Refusal::new(ErrorCode::Internal, format!("an answer cannot be written: {error}"))
    })?;
    Ok((status, [(CONTENT_TYPE, "application/json")], body).into_response())
}

pub(crate) fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// What the caller reads, by `Accept-Language`.
pub(crate) fn language(headers: &HeaderMap) -> Language {
    let wanted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    wanted.split(',').find_map(|tag| Language::parse(tag.trim().split(';').next()?)).unwrap_or_default()
}

/// Writes a refusal out. Any other response passes as it is.
pub(crate) fn dress(mut response: Response, path: &str, language: Language) -> Response {
    let Some(body) = response.extensions_mut().remove::<ErrorBody>() else { return response };
    let json = if openai::is_its_path(path) {
        serde_json::to_vec(&openai::error_body(response.status(), &body))
    } else {
        let hint = texts::hint(body.code).map(|text| text.in_language(language).to_owned());
        let ErrorBody { code, message, details } = body;
        serde_json::to_vec(&Failure { error: Problem { code, message, hint, details } })
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Body::from(json.unwrap_or_default());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_or_a_budget_refuses_is_no_fault_of_the_server() {
        for (code, expected) in [
            (ErrorCode::PolicyDenied, 403),
            (ErrorCode::BudgetExceeded, 402),
            (ErrorCode::ContextOverflow, 400),
            (ErrorCode::CredentialsUnreadable, 502),
        ] {
            assert_eq!(status(code).as_u16(), expected, "{code}");
        }
    }
}
