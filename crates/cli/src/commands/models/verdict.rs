//! What a failed call means to the person who set the model up. Pure.

use std::fmt::Display;

use tidegate_models::FailureKind;
use tidegate_protocol::api::CallFailure;
use tidegate_protocol::{ErrorCode, ModelRef};
use tidegate_runtime::catalogue::Text;
use tidegate_runtime::iso_timestamp;

use crate::failure::{Message, With as _};
use crate::texts;

pub(super) struct Verdict {
    pub(super) code: ErrorCode,
    pub(super) message: Message,
    pub(super) hint: Option<Message>,
}

/// `near` is a known model whose name looks much like this one's.
pub(super) fn of(failure: &CallFailure, model: &ModelRef, near: Option<String>, now: i64) -> Verdict {
    let kind = FailureKind::parse(&failure.reason).unwrap_or(FailureKind::Broken);
    let profile = failure.profile_id.as_deref().unwrap_or("-");
    let until = iso_timestamp(now.saturating_add(wait_ms(failure)));
    let values: [(&str, &dyn Display); 5] = [
        ("provider", &model.provider),
        ("model", &model.model),
        ("profile", &profile),
        ("detail", &failure.message),
        ("until", &until),
    ];
    let (text, hint) = match kind {
        // Without an answer there was no credential to refuse.
        FailureKind::Auth if failure.status.is_none() => (texts::VERDICT_PLAIN, Some(texts::HINT_LOG_IN)),
        FailureKind::Auth => (texts::VERDICT_AUTH, Some(texts::HINT_LOG_IN)),
        FailureKind::Billing => (texts::VERDICT_BILLING, Some(texts::HINT_BILLING)),
        FailureKind::NoSuchModel => (texts::VERDICT_NO_MODEL, Some(texts::HINT_NO_MODEL)),
        FailureKind::RateLimit if failure.retry_after_ms.is_some() => {
            (texts::VERDICT_RATE_UNTIL, Some(texts::HINT_ANOTHER))
        }
        FailureKind::RateLimit => (texts::VERDICT_RATE, Some(texts::HINT_ANOTHER)),
        FailureKind::Overloaded => (texts::VERDICT_OVERLOADED, Some(texts::HINT_ANOTHER)),
        FailureKind::Timeout => (texts::VERDICT_TIMEOUT, Some(texts::HINT_TIMEOUT)),
        FailureKind::Format => (texts::VERDICT_FORMAT, Some(texts::HINT_FORMAT)),
        FailureKind::Broken => (texts::VERDICT_BROKEN, Some(network(failure))),
        FailureKind::ContextOverflow | FailureKind::Refused | FailureKind::Empty | FailureKind::CostLimit => {
            (texts::VERDICT_PLAIN, None)
        }
    };
    let hint = match (kind, near) {
        (FailureKind::NoSuchModel, Some(near)) => Some(texts::DID_YOU_MEAN.with(&[("word", &near)])),
        _ => hint.map(|hint| hint.with(&values)),
    };
    Verdict { code: code(kind), message: text.with(&values), hint }
}

fn wait_ms(failure: &CallFailure) -> i64 {
    i64::try_from(failure.retry_after_ms.unwrap_or(0)).unwrap_or(i64::MAX)
}

fn code(kind: FailureKind) -> ErrorCode {
    match kind {
        FailureKind::Auth => ErrorCode::AuthRequired,
        FailureKind::ContextOverflow => ErrorCode::ContextOverflow,
        FailureKind::CostLimit => ErrorCode::BudgetExceeded,
        _ => ErrorCode::ModelUnavailable,
    }
}

/// What to look at when there was no proper answer: by the words of the one HTTP client, which are ours.
fn network(failure: &CallFailure) -> Text {
    let says = |words: &[&str]| words.iter().any(|word| failure.message.to_lowercase().contains(word));
    if failure.status.is_some() {
        texts::HINT_SERVER
    } else if says(&["cannot be resolved"]) {
        texts::HINT_UNRESOLVED
    } else if says(&["corrupt message", "handshake eof"]) {
        texts::HINT_NO_TLS
    } else if says(&["certificate", "tls", "handshake"]) {
        texts::HINT_TLS
    } else if says(&["refused"]) {
        texts::HINT_REFUSED
    } else if says(&["web page"]) {
        texts::HINT_WEB_PAGE
    } else {
        texts::HINT_NETWORK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, message: &str, status: Option<u16>) -> CallFailure {
        CallFailure {
            reason: kind.as_str().to_owned(),
            message: message.to_owned(),
            profile_id: Some("anthropic/default".to_owned()),
            status,
            retry_after_ms: None,
        }
    }

    fn model() -> ModelRef {
        ModelRef { provider: "anthropic".to_owned(), model: "claude".to_owned() }
    }

    fn hint(kind: FailureKind, message: &str, status: Option<u16>) -> String {
        of(&failure(kind, message, status), &model(), None, 0).hint.unwrap().en
    }

    #[test]
    fn a_wrong_key_is_told_apart_from_none() {
        let wrong = of(&failure(FailureKind::Auth, "invalid x-api-key", Some(401)), &model(), None, 0);
        assert!(wrong.message.en.contains("anthropic/default"), "{}", wrong.message.en);
        assert_eq!(wrong.code, ErrorCode::AuthRequired);
        let none = of(&failure(FailureKind::Auth, "there is none", None), &model(), None, 0);
        assert_eq!(none.message.en, "there is none");
    }

    #[test]
    fn a_limit_says_until_when() {
        let limited = CallFailure {
            retry_after_ms: Some(60_000),
            ..failure(FailureKind::RateLimit, "slow down", Some(429))
        };
        let told = of(&limited, &model(), None, 0).message.en;
        assert!(told.contains("1970-01-01T00:01:00"), "{told}");
        let without = of(&failure(FailureKind::RateLimit, "slow down", Some(429)), &model(), None, 0);
        assert!(!without.message.en.contains("1970"), "{}", without.message.en);
    }

    #[test]
    fn each_kind_of_silence_has_its_own_advice() {
        let refused =
            hint(FailureKind::Broken, "no connection to x: Connection refused (os error 111)", None);
        let unresolved = hint(FailureKind::Broken, "the name x cannot be resolved", None);
        let tls = hint(FailureKind::Broken, "no connection to x: invalid peer certificate: Expired", None);
        let plain = hint(FailureKind::Broken, "no connection to x: received corrupt message of type Y", None);
        let server = hint(FailureKind::Broken, "internal error", Some(500));
        let silent = hint(FailureKind::Timeout, "x sent nothing for 1 s", None);
        let all = [refused, unresolved, tls, plain, server, silent];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{one}");
        }
    }

    #[test]
    fn a_name_that_looks_much_like_a_known_one_is_suggested() {
        let failed = failure(FailureKind::NoSuchModel, "not_found_error", Some(404));
        let told = of(&failed, &model(), Some("anthropic/claude-x".to_owned()), 0);
        assert!(told.hint.unwrap().en.contains("anthropic/claude-x"));
    }

    #[test]
    fn every_kind_has_a_sentence_with_the_providers_own_words() {
        for kind in [
            FailureKind::Auth,
            FailureKind::RateLimit,
            FailureKind::Overloaded,
            FailureKind::Billing,
            FailureKind::Timeout,
            FailureKind::Format,
            FailureKind::ContextOverflow,
            FailureKind::NoSuchModel,
            FailureKind::Refused,
            FailureKind::Empty,
            FailureKind::CostLimit,
            FailureKind::Broken,
        ] {
            let told = of(&failure(kind, "its own words", Some(418)), &model(), None, 0);
            assert!(told.message.en.contains("its own words"), "{kind:?}: {}", told.message.en);
            assert!(told.message.zh.contains("its own words"), "{kind:?}: {}", told.message.zh);
        }
    }
}
