//! Error texts as people read them: no JSON, no endless page, no sentence twice.

use serde_json::Value;
use tidegate_models::{FailureKind, classify};
use tidegate_runtime::catalogue::Language;

use super::fences::fence_spans;
use crate::texts;

/// Characters of an error that are shown.
const MOST_SHOWN: usize = 600;

/// What errors begin with, in whatever program they arose.
const BEGINNINGS: [&str; 8] = [
    "error",
    "api error",
    "openai error",
    "anthropic error",
    "gateway error",
    "request failed",
    "failed",
    "exception",
];

/// What is sent to a person instead of a raw text: an error in plain words, anything else without
/// repetitions.
pub fn for_people(text: &str, language: Language) -> String {
    let text = without_final(text);
    let error = text.trim();
    if let Some(payload) = Payload::read(error) {
        return payload.words(language);
    }
    if status_of(error).is_some() || !error.contains('\n') && begins_like_an_error(error) {
        return plain_words(error, language).unwrap_or_else(|| shortened(error));
    }
    without_repetitions(&text)
}

/// The tags of `<final>`, which a text may have that never passed the stream filter.
fn without_final(text: &str) -> String {
    let mut out = text.to_owned();
    for tag in ["<final>", "</final>"] {
        out = out.replace(tag, "");
    }
    out
}

/// Known kinds of failure have words of their own.
fn plain_words(error: &str, language: Language) -> Option<String> {
    let text = match classify(None, error).kind {
        FailureKind::RateLimit | FailureKind::Overloaded => texts::BUSY,
        FailureKind::Timeout => texts::TIMED_OUT,
        FailureKind::ContextOverflow => texts::TOO_LONG,
        _ => return None,
    };
    Some(text.in_language(language).to_owned())
}

fn begins_like_an_error(text: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| {
        let start = text.get(..beginning.len()).filter(|start| start.eq_ignore_ascii_case(beginning));
        let rest = start.and_then(|_| text.get(beginning.len()..));
        rest.is_some_and(|rest| rest.trim_start().starts_with([':', '-']))
    })
}

/// The status of a text such as `HTTP 404 Not Found` or `503 Service Unavailable`.
fn status_of(text: &str) -> Option<u16> {
    let named = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    let rest = if named { text.get(4..)?.trim_start_matches([' ', ':']) } else { text };
    let (number, words) = rest.split_once([' ', ':'])?;
    let status = number.parse().ok().filter(|status| (400..600).contains(status))?;
    // "404 people came" is no error.
    let is_reason = words.trim_start().starts_with(|c: char| c.is_uppercase() || c == '{');
    (number.len() == 3 && (named || is_reason)).then_some(status)
}

/// An error as an API sends it.
struct Payload {
    status: Option<u16>,
    kind: Option<String>,
    message: String,
    request: Option<String>,
}

impl Payload {
    fn read(text: &str) -> Option<Self> {
        let status = status_of(text);
        let start = text.find('{')?;
        let (before, json) = text.split_at(start);
        let is_alone = before.trim().is_empty() || status.is_some() || begins_like_an_error(before);
        let value: Value = serde_json::from_str(json).ok().filter(|_| is_alone)?;
        let at = |place: &str| value.pointer(place)?.as_str().map(str::to_owned);
        let is_error = value.get("error").is_some() || at("/type").as_deref() == Some("error");
        let message = at("/error/message").or_else(|| at("/message")).or_else(|| at("/error"))?;
        let kind = at("/error/type").or_else(|| at("/error/code")).or_else(|| at("/error/status"));
        let request = at("/request_id").or_else(|| at("/requestId"));
        is_error.then_some(Self { status, kind, message, request })
    }

    fn words(&self, language: Language) -> String {
        let source = match self.status {
            Some(status) => format!("HTTP {status}"),
            None => texts::MODEL_ERROR.in_language(language).to_owned(),
        };
        let kind = self.kind.as_deref().map(|kind| format!(" {kind}")).unwrap_or_default();
        let request =
            self.request.as_deref().map(|request| format!(" (request_id: {request})")).unwrap_or_default();
        shortened(&format!("{source}{kind}: {}{request}", self.message))
    }
}

/// At most so much of an error, without credentials. Half a key is not known for one, so they go first.
fn shortened(text: &str) -> String {
    let text = tidegate_runtime::redact(text);
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(MOST_SHOWN).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Paragraphs that say again what the one before them said are left out. Code may repeat itself.
fn without_repetitions(text: &str) -> String {
    let spans = fence_spans(text);
    let mut out = String::new();
    let mut before: Option<Vec<&str>> = None;
    let mut at = 0;
    for paragraph in text.split_inclusive("\n\n") {
        let end = at + paragraph.len();
        let is_code = spans.iter().any(|span| span.start < end && at < span.end);
        at = end;
        let words: Vec<_> = paragraph.split_whitespace().collect();
        if is_code || words.is_empty() {
            before = None;
        } else if before.as_ref() == Some(&words) {
            continue;
        } else {
            before = Some(words);
        }
        out.push_str(paragraph);
    }
    // The end belongs to what was left out, if that was the last one.
    if text.ends_with('\n') { out } else { out.trim_end_matches('\n').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        for_people(text, Language::English)
    }

    #[test]
    fn the_recorded_texts_become_readable() {
        assert_eq!(shown("Error: 429 rate limit"), texts::BUSY.en);
        assert_eq!(shown("a\n\na\n\nb"), "a\n\nb");
        let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        assert_eq!(shown(overloaded), "LLM error overloaded_error: Overloaded");
    }

    #[test]
    fn an_api_error_is_told_in_words_whatever_stands_before_it() {
        let json = r#"{"error": {"code": "no_model", "message": "no such model"}, "request_id": "r1"}"#;
        let words = "no_model: no such model (request_id: r1)";
        assert_eq!(shown(json), format!("LLM error {words}"));
        assert_eq!(shown(&format!("API error: {json}")), format!("LLM error {words}"));
        assert_eq!(shown(&format!("HTTP 404: {json}")), format!("HTTP 404 {words}"));
        assert_eq!(shown(&format!("404 {json}")), format!("HTTP 404 {words}"));
        assert_eq!(for_people(json, Language::Chinese), format!("模型错误 {words}"));
    }

    #[test]
    fn known_failures_have_words_of_their_own() {
        for (text, expected) in [
            ("HTTP 529 Overloaded", texts::BUSY),
            ("429 Too Many Requests", texts::BUSY),
            ("Request failed: deadline exceeded", texts::TIMED_OUT),
            ("Error - prompt is too long: 210000 tokens > 200000 maximum", texts::TOO_LONG),
        ] {
            assert_eq!(shown(text), expected.en, "{text:?}");
            assert_eq!(for_people(text, Language::Chinese), expected.zh, "{text:?}");
        }
        assert_eq!(shown("Error: no such file"), "Error: no such file");
    }

    #[test]
    fn an_answer_is_no_error() {
        for text in [
            r#"{"name": "x", "message": "hi"}"#,
            r#"Send this: {"error": {"message": "x"}}"#,
            "429 people were there, a rate limit of sorts",
            "Errors happen. A rate limit is one of them.",
            "Error: the log says\n\nrate limit",
            "It failed: rate limit",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("<final>ok</final>"), "ok");
    }

    #[test]
    fn an_error_has_an_end_and_no_credentials() {
        let long = shown(&format!("Error: {}", "é".repeat(2 * MOST_SHOWN)));
        assert_eq!(long.chars().count(), MOST_SHOWN + 1);
        let key = format!("{}{}", "sk-", "a1B2c3D4e5F6g7H8i9J0");
        for text in
            [format!("Error: bad key {key}"), format!(r#"{{"error": {{"message": "bad key {key}"}}}}"#)]
        {
            assert!(!shown(&text).contains(&key), "{text}");
        }
    }

    #[test]
    fn only_paragraphs_that_follow_each_other_are_repetitions() {
        for (text, expected) in [
            ("a  b\n\na b", "a  b"),
            ("a\n\na\n\na\n\nb\n\na", "a\n\nb\n\na"),
            ("```\na\n\na\n\n```\n\nb\n\nb", "```\na\n\na\n\n```\n\nb"),
            ("a\n\n\n\nb\n", "a\n\n\n\nb\n"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
