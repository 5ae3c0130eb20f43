//! What to do after a failed call of which nothing was shown. Pure.

use std::time::Duration;

use tidegate_protocol::ThinkingLevel;

use crate::failure::{Failure, FailureKind};
use crate::thinking;

/// A wait the provider asks for is taken when it is this short; else somebody else is asked.
const SHORT_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same again, after a pause.
    Repeat,
    /// The same with a fresh token.
    Renew,
    ThinkLess(ThinkingLevel),
    NextCredential,
    NextModel,
    /// Nobody else would do better.
    Final,
}

pub(crate) fn judge(failure: &Failure, may_repeat: bool, may_renew: bool, may_think_less: bool) -> Verdict {
    if failure.kind == FailureKind::Format
        && may_think_less
        && let Some(level) =
            thinking::supported_in(&failure.message).and_then(|levels| levels.first().copied())
    {
        return Verdict::ThinkLess(level);
    }
    match failure.kind {
        FailureKind::Format
        | FailureKind::ContextOverflow
        | FailureKind::Refused
        | FailureKind::CostLimit => Verdict::Final,
        FailureKind::Auth if may_renew => Verdict::Renew,
        FailureKind::Auth | FailureKind::Billing => Verdict::NextCredential,
        FailureKind::RateLimit => match failure.retry_after {
            Some(wait) if wait <= SHORT_WAIT && may_repeat => Verdict::Repeat,
            _ => Verdict::NextCredential,
        },
        FailureKind::Overloaded | FailureKind::Broken | FailureKind::Empty => {
            let short = failure.retry_after.is_none_or(|wait| wait <= SHORT_WAIT);
            if may_repeat && short { Verdict::Repeat } else { Verdict::NextModel }
        }
        // It took long enough once.
        FailureKind::Timeout | FailureKind::NoSuchModel => Verdict::NextModel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: FailureKind) -> Failure {
        Failure::new(kind, "words")
    }

    fn verdict(kind: FailureKind) -> Verdict {
        judge(&of(kind), true, false, true)
    }

    #[test]
    fn what_we_sent_wrong_is_not_sent_to_somebody_else() {
        for kind in
            [FailureKind::Format, FailureKind::ContextOverflow, FailureKind::Refused, FailureKind::CostLimit]
        {
            assert_eq!(verdict(kind), Verdict::Final, "{kind:?}");
        }
    }

    #[test]
    fn what_passes_is_repeated_and_then_the_next_model_is_asked() {
        for kind in [FailureKind::Overloaded, FailureKind::Broken, FailureKind::Empty] {
            assert_eq!(verdict(kind), Verdict::Repeat, "{kind:?}");
            assert_eq!(judge(&of(kind), false, false, true), Verdict::NextModel, "{kind:?}");
        }
    }

    #[test]
    fn a_limit_is_waited_out_when_it_is_short_and_evaded_when_it_is_not() {
        let wait = |seconds| Failure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..of(FailureKind::RateLimit)
        };
        assert_eq!(judge(&wait(2), true, false, true), Verdict::Repeat);
        assert_eq!(judge(&wait(2), false, false, true), Verdict::NextCredential);
        assert_eq!(judge(&wait(60), true, false, true), Verdict::NextCredential);
        assert_eq!(verdict(FailureKind::RateLimit), Verdict::NextCredential);
    }

    #[test]
    fn a_refused_login_is_renewed_once_before_another_is_tried() {
        assert_eq!(judge(&of(FailureKind::Auth), true, true, true), Verdict::Renew);
        assert_eq!(judge(&of(FailureKind::Auth), true, false, true), Verdict::NextCredential);
        assert_eq!(verdict(FailureKind::Billing), Verdict::NextCredential);
    }

    #[test]
    fn a_level_the_model_does_not_know_is_replaced_by_one_it_names() {
        let words = "Unsupported value: 'minimal' is not supported. Supported values are: 'low', 'medium', and 'high'.";
        let failure = Failure::new(FailureKind::Format, words);
        assert_eq!(judge(&failure, true, false, true), Verdict::ThinkLess(ThinkingLevel::Low));
        assert_eq!(judge(&failure, true, false, false), Verdict::Final);
    }
}
