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
    // A limit's words may speak of plans and billing, because paying more would raise it: then only plain words count.
    let is_limit = status == Some(429) || is_rate_limit(text);
    if status == Some(402) || is_out_of_credit(text) || !is_limit && speaks_of_billing(text) {
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
    if is_rate_limit(text) {
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
        "no credentials found",
        "no api key found",
    ]) || standing_alone(text, "401")
        || standing_alone(text, "403")
    {
        return Some(FailureKind::Auth);
    }
    None
}

fn is_rate_limit(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "rate_limit",
        "rate limit",
        "too many requests",
        "exceeded your current quota",
        "exceeded current quota",
        "resource has been exhausted",
        "resource exhausted",
        "resource_exhausted",
        "quota exceeded",
        "usage limit",
        "throttl",
    ];
    WORDS.iter().any(|word| text.contains(word)) || standing_alone(text, "429")
}

/// Words that mean an empty purse whatever stands beside them.
fn is_out_of_credit(text: &str) -> bool {
    const WORDS: [&str; 6] = [
        "payment required",
        "insufficient credits",
        "insufficient_quota",
        "insufficient balance",
        "credit balance",
        "billing_hard_limit",
    ];
    WORDS.iter().any(|word| text.contains(word)) || standing_alone(text, "402")
}

fn speaks_of_billing(text: &str) -> bool {
    let of = ["upgrade", "credits", "payment", "plan"];
    text.contains("billing") && of.iter().any(|word| text.contains(word))
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
        "input is too long",
        "maximum prompt length is",
        "reduce the length of the messages",
        "exceeds the available context size",
        "greater than the context length",
        "exceeds the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        "model_context_window_exceeded",
    ];
    any.iter().any(|word| text.contains(word))
        || has("request size exceeds") && (has("context window") || has("context length"))
        || has("input token count") && has("exceeds the maximum")
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
    // Before it is cut: half a key is no longer known for one.
    let shown = tidegate_runtime::redact(&shown);
    let mut characters = shown.chars();
    let mut text: String = characters.by_ref().take(MOST_SHOWN).collect();
    if characters.next().is_some() {
        text.push('…');
    }
    Some(text).filter(|text| !text.trim().is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> FailureKind {
        classify(Some(status), body).kind
    }

    #[test]
    fn the_recorded_texts_have_their_classes() {
        let cases: [(&str, Option<FailureKind>, bool); 8] = [
            ("429 Too Many Requests", Some(FailureKind::RateLimit), false),
            ("invalid_api_key", Some(FailureKind::Auth), false),
            ("Your credit balance is too low", Some(FailureKind::Billing), false),
            ("request timed out", Some(FailureKind::Timeout), false),
            (
                "messages.1.content.1.tool_use.id: String should match pattern",
                Some(FailureKind::Format),
                false,
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(FailureKind::ContextOverflow), true),
            ("token has expired", Some(FailureKind::Auth), false),
            // No class of the upstream's; ours has one for what may pass.
            ("internal server error", Some(FailureKind::Broken), false),
        ];
        for (text, expected, overflow) in cases {
            assert_eq!(Some(classify(None, text).kind), expected, "{text}");
            assert_eq!(is_overflow(None, text), overflow, "{text}");
        }
    }

    #[test]
    fn the_recorded_statuses_have_their_classes() {
        assert_eq!(kind(402, ""), FailureKind::Billing);
        assert_eq!(kind(403, ""), FailureKind::Auth);
        assert_eq!(kind(401, ""), FailureKind::Auth);
        assert_eq!(kind(408, ""), FailureKind::Timeout);
        assert_eq!(kind(429, ""), FailureKind::RateLimit);
        assert_eq!(kind(529, ""), FailureKind::Overloaded);
        assert_eq!(kind(500, "<html>502</html>"), FailureKind::Broken);
        assert_eq!(kind(404, ""), FailureKind::NoSuchModel);
        assert_eq!(kind(400, "bad"), FailureKind::Format);
    }

    #[test]
    fn words_weigh_more_than_the_status_where_vendors_disagree() {
        let quota = r#"{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota, please check your plan and billing details."}}"#;
        assert_eq!(kind(429, quota), FailureKind::Billing);
        let long = r#"{"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 8192 tokens."}}"#;
        assert_eq!(kind(400, long), FailureKind::ContextOverflow);
        let google = r#"[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}]"#;
        assert_eq!(kind(400, google), FailureKind::Auth);
    }

    #[test]
    fn a_limit_that_more_money_would_raise_is_a_limit() {
        let google = r#"{"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", "status": "RESOURCE_EXHAUSTED"}}"#;
        let openai = r#"{"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached. You can increase it by adding a payment method at https://platform.openai.com/account/billing."}}"#;
        for words in [google, openai] {
            assert_eq!(kind(429, words), FailureKind::RateLimit);
            assert_eq!(classify(None, words).kind, FailureKind::RateLimit);
        }
        let anthropic = r#"{"error": {"message": "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade."}}"#;
        assert_eq!(kind(400, anthropic), FailureKind::Billing);
        assert_eq!(kind(403, "your plan ended; see billing"), FailureKind::Billing);
    }

    #[test]
    fn digits_within_a_name_are_no_status() {
        for words in ["req_4011", "req_a403b", "id 14290", "order 74021"] {
            assert_eq!(kind(500, words), FailureKind::Broken, "{words}");
        }
    }

    #[test]
    fn every_vendors_words_for_too_long_are_known() {
        let texts = [
            "input is too long for requested model",
            "Your input exceeds the context window of this model",
            "The input token count (1000001) exceeds the maximum number of tokens allowed",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
            "Please reduce the length of the messages or completion",
            "This endpoint's maximum context length is 128000 tokens",
            "prompt token count of 200000 exceeds the limit of 128000",
            "the request exceeds the available context size",
            "tokens to keep from the initial prompt is greater than the context length",
            "invalid params, context window exceeds limit",
            "Your request exceeded model token limit: 262144",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "model_context_window_exceeded",
        ];
        for text in texts {
            assert!(is_overflow(Some(400), &text.to_lowercase()), "{text}");
        }
        assert!(is_overflow(Some(413), "400 status code (no body)"));
        assert!(!is_overflow(Some(413), "the image is too heavy"));
    }

    #[test]
    fn a_person_reads_the_providers_words_and_no_web_page_and_no_key() {
        let shown = |body: &str| classify(Some(500), body).message;
        assert_eq!(shown(r#"{"error": {"message": "no such thing"}}"#), "no such thing");
        assert_eq!(shown(r#"{"error": "model 'x' not found"}"#), "model 'x' not found");
        assert_eq!(shown(r#"{"message": "The security token is invalid"}"#), "The security token is invalid");
        assert_eq!(shown("<html><body>oops</body></html>"), "the provider answered with status 500");
        assert_eq!(shown(""), "the provider answered with status 500");
        let key = format!("{}{}", "sk-", "a1B2c3D4e5F6g7H8i9J0");
        let leaked = shown(&format!(r#"{{"error": {{"message": "Incorrect API key provided: {key}"}}}}"#));
        assert!(!leaked.contains(&key), "{leaked}");
        let cut = shown(&format!("{} {key}", "x".repeat(MOST_SHOWN - 12)));
        assert!(!cut.contains(&key[..8]), "{cut}");
        assert!(shown(&"x".repeat(5000)).chars().count() <= MOST_SHOWN + 1);
    }

    #[test]
    fn the_time_to_wait_is_read_where_it_makes_sense() {
        let of = |name: &'static str, value: &'static str| {
            retry_after(|asked| (asked == name).then_some(value)).map(|wait| wait.as_millis())
        };
        assert_eq!(of("retry-after", "20"), Some(20_000));
        assert_eq!(of("retry-after-ms", "1500"), Some(1500));
        assert_eq!(of("x-ratelimit-reset-after", "3s"), Some(3000));
        for (name, value) in [
            ("retry-after", "Wed, 21 Oct"),
            ("retry-after", "-1"),
            ("retry-after", "1e12"),
            ("retry-after", "NaN"),
        ] {
            assert_eq!(of(name, value), None, "{value}");
        }
    }
}
