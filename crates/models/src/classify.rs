//! What a provider's refusal means, from its status and its words.

use std::time::Duration;

use serde_json::Value;

use crate::failure::{Failure, FailureKind};

/// Most characters of a provider's words that are shown.
const MOST_SHOWN: usize = 500;

/// The class and the words of a refusal.
pub fn classify(status: Option<u16>, body: &str) -> Failure {
    let words = message_of(body);
    let text = body.to_lowercase();
    let kind = kind_of(status, &text);
    let message = match (words, status) {
        (Some(words), _) => words,
        (None, Some(status)) => format!("the provider answered with status {status}"),
        (None, None) => "the provider gave no reason".to_owned(),
    };
    Failure { kind, message, status, retry_after: None }
}

/// The words are looked at first where they say more than the status: a full context comes as 400, 413 and 429, an empty
/// purse as 400, 403 and 429.
fn kind_of(status: Option<u16>, text: &str) -> FailureKind {
    if is_overflow(status, text) {
        return FailureKind::ContextOverflow;
    }
    if status == Some(402) || is_billing(text) {
        return FailureKind::Billing;
    }
    match status {
        Some(401 | 403) => return FailureKind::Auth,
        Some(408 | 504) => return FailureKind::Timeout,
        Some(429) => return FailureKind::RateLimit,
        Some(503 | 529) => return FailureKind::Overloaded,
        Some(404) => return FailureKind::NoSuchModel,
        Some(400) if text.contains("api key not valid") || text.contains("api_key_invalid") => {
            return FailureKind::Auth;
        }
        Some(400 | 413 | 415 | 422) => return FailureKind::Format,
        _ => {}
    }
    reason(text).unwrap_or(FailureKind::Broken)
}

/// The class of an error that has words only, as one inside a stream.
fn reason(text: &str) -> Option<FailureKind> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["overloaded"]) {
        return Some(FailureKind::Overloaded);
    }
    if has(&[
        "rate_limit",
        "rate limit",
        "too many requests",
        "429",
        "exceeded your current quota",
        "exceeded current quota",
        "resource has been exhausted",
        "resource exhausted",
        "resource_exhausted",
        "quota exceeded",
        "usage limit",
        "throttl",
    ]) {
        return Some(FailureKind::RateLimit);
    }
    if has(&[
        "string should match pattern",
        "tool_use.id",
        "tool_use_id",
        "invalid request format",
        "invalid_request_error",
        "validationexception",
    ]) {
        return Some(FailureKind::Format);
    }
    if is_billing(text) {
        return Some(FailureKind::Billing);
    }
    if has(&["timeout", "timed out", "deadline exceeded", "deadline_exceeded"]) {
        return Some(FailureKind::Timeout);
    }
    if has(&["model_not_found", "not_found_error", "model not found"]) {
        return Some(FailureKind::NoSuchModel);
    }
    if has(&[
        "invalid_api_key",
        "invalid api key",
        "incorrect api key",
        "invalid token",
        "authentication",
        "re-authenticate",
        "oauth token refresh failed",
        "unauthorized",
        "forbidden",
        "access denied",
        "accessdenied",
        "expired",
        "401",
        "403",
        "no credentials found",
        "no api key found",
    ]) {
        return Some(FailureKind::Auth);
    }
    None
}

fn is_billing(text: &str) -> bool {
    let has = |word: &str| text.contains(word);
    standing_alone(text, "402")
        || has("payment required")
        || has("insufficient credits")
        || has("insufficient_quota")
        || has("insufficient balance")
        || has("credit balance")
        || has("plans & billing")
        || has("billing_hard_limit")
        || has("billing") && ["upgrade", "credits", "payment", "plan"].iter().any(|word| text.contains(word))
}

/// Whether the number stands there by itself and is no part of a longer one.
fn standing_alone(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let edge = |character: Option<char>| !character.is_some_and(|c| c.is_alphanumeric() || c == '_');
        edge(text[..at].chars().next_back()) && edge(text[at + number.len()..].chars().next())
    })
}

/// Whether the conversation is too long for the model, in any vendor's words.
pub fn is_overflow(status: Option<u16>, text: &str) -> bool {
    let has = |word: &str| text.contains(word);
    let any = [
        "request_too_large",
        "request exceeds the maximum size",
        "context length exceeded",
        "context_length_exceeded",
        "maximum context length",
        "prompt is too long",
        "exceeds model context window",
        "exceeds the context window",
        "context overflow",
        "input is too long for requested model",
        "input is too long",
        "maximum prompt length is",
        "reduce the length of the messages",
        "exceeds the available context size",
        "greater than the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        "model_context_window_exceeded",
        "maximum context length",
    ];
    any.iter().any(|word| text.contains(word))
        || has("request size exceeds") && (has("context window") || has("context length"))
        || has("input token count") && has("exceeds the maximum")
        || has("too large for model with") && has("maximum context length")
        || has("exceeds the limit of") && has("token")
        || (has("413") || status == Some(413)) && has("too large")
        || matches!(status, Some(400 | 413)) && has("(no body)")
}

/// The words a person should read, wherever the vendor puts them.
fn message_of(body: &str) -> Option<String> {
    let shown = match serde_json::from_str::<Value>(body) {
        Ok(value) => words_in(&value)?,
        Err(_) if body.trim_start().starts_with('<') => return None,
        Err(_) => body.trim().to_owned(),
    };
    let mut characters = shown.chars();
    let mut text: String = characters.by_ref().take(MOST_SHOWN).collect();
    if characters.next().is_some() {
        text.push('…');
    }
    Some(tidegate_runtime::redact(&text).into_owned()).filter(|text| !text.trim().is_empty())
}

fn words_in(value: &Value) -> Option<String> {
    // Google wraps its errors in a list when it streams.
    let value = value.get(0).unwrap_or(value);
    let places = [
        "/error/message",
        "/message",
        "/Message",
        "/detail",
        "/error",
        "/errors/0/message",
        "/error_description",
    ];
    let found =
        places.iter().filter_map(|place| value.pointer(place)?.as_str()).find(|text| !text.is_empty());
    found.map(str::to_owned).or_else(|| value.as_str().map(str::to_owned))
}

/// How long the provider asks us to wait.
pub(crate) fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let millis = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let seconds = millis.or_else(|| header("retry-after")?.trim().parse().ok());
    let seconds = seconds.or_else(|| duration_text(header("x-ratelimit-reset-after")?));
    // A day is the longest anybody means; more is a mistake in units.
    seconds
        .filter(|seconds| seconds.is_finite() && (0.0..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
}

fn duration_text(text: &str) -> Option<f64> {
    text.trim().trim_end_matches('s').parse().ok()
}
