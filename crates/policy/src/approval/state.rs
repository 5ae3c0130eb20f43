//! What may become of an approval. Every change is one of these four; the store writes what they answer.

use super::{AllowRule, Answer, Answered, Approval, ApprovalState, GRACE_MS, Grant, OwnCalls, UseRefused};
use crate::digest::Digest;
use crate::principal::Principal;

/// What an answer does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answering {
    /// It counts; the rule is saved with it.
    Counts { approval: Box<Approval>, rule: Option<Box<AllowRule>> },
    /// Its time had passed: it expires instead.
    Expires(Box<Approval>),
    /// It was settled before, and stays as it is.
    Settled,
    /// Whoever asked may not say yes.
    Own,
    /// The rule is none that the question offers.
    CannotBeSaved,
}

impl Approval {
    /// When it expires by itself; never once it is settled.
    pub fn deadline(&self) -> Option<i64> {
        match self.state {
            ApprovalState::Pending => Some(self.expires_at),
            ApprovalState::Approved => Some(self.expires_at.saturating_add(GRACE_MS)),
            _ => None,
        }
    }

    /// The first answer counts, if it comes in time and from somebody who may give it.
    pub fn answer(&self, by: &Principal, answer: &Answer, own: OwnCalls, now: i64) -> Answering {
        if let Some(expired) = self.expire(now) {
            return Answering::Expires(Box::new(expired));
        }
        if self.state != ApprovalState::Pending {
            return Answering::Settled;
        }
        let (state, reason, new_rule) = match answer {
            Answer::Deny { reason } => (ApprovalState::Denied, reason.clone(), None),
            Answer::AllowOnce => (ApprovalState::Approved, None, None),
            Answer::AllowAlways(rule) => (ApprovalState::Approved, None, Some(rule)),
        };
        let own_yes = state == ApprovalState::Approved && by.actor() == self.requester;
        if own_yes && own == OwnCalls::MayNotApprove {
            return Answering::Own;
        }
        if new_rule.is_some_and(|rule| !self.question.offers(&rule.matches)) {
            return Answering::CannotBeSaved;
        }
        let rule = new_rule.map(|rule| AllowRule {
            id: rule.id,
            scope: self.scope.clone(),
            tool: self.tool.clone(),
            matches: rule.matches.clone(),
            created_by: by.actor().to_owned(),
            approval: Some(self.id),
            created_at: now,
            last_used_at: None,
        });
        let answered =
            Answered { by: by.actor().to_owned(), reason, rule: new_rule.map(|rule| rule.id), at: now };
        let approval = Self { answered: Some(answered), ..self.moved_to(state, now) };
        Answering::Counts { approval: Box::new(approval), rule: rule.map(Box::new) }
    }

    /// Ends what nobody answered, or nobody used, in time.
    pub fn expire(&self, now: i64) -> Option<Self> {
        let late = self.deadline().is_some_and(|deadline| now >= deadline);
        late.then(|| self.moved_to(ApprovalState::Expired, now))
    }

    /// Ends what nobody waits for any more; a yes that was not used is worth nothing from then on.
    pub fn cancel(&self, now: i64) -> Option<Self> {
        let open = matches!(self.state, ApprovalState::Pending | ApprovalState::Approved);
        open.then(|| self.moved_to(ApprovalState::Cancelled, now))
    }

    /// Uses the yes up. It works once, in time, for the call that was asked about.
    pub fn use_up(&self, digest: &Digest, now: i64) -> Result<(Self, Grant), UseRefused> {
        let state = self.expire(now).map_or_else(|| self.state.clone(), |expired| expired.state);
        if state != ApprovalState::Approved {
            return Err(UseRefused::State(state));
        }
        if self.digest != *digest {
            return Err(UseRefused::OtherCall);
        }
        let grant = Grant { approval: self.id, digest: digest.clone() };
        Ok((self.moved_to(ApprovalState::Used, now), grant))
    }

    fn moved_to(&self, state: ApprovalState, now: i64) -> Self {
        Self { state, updated_at: now, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{AllowRuleId, Id, TenantId};

    use super::*;
    use crate::approval::testing::{approval, command};
    use crate::approval::{AllowMatch, NewAllowRule};

    const ALL: [&str; 7] = ["pending", "approved", "denied", "expired", "cancelled", "used", "paused"];
    const DENY: Answer = Answer::Deny { reason: None };

    fn somebody(actor: &str) -> Principal {
        Principal::of_run("local".parse::<TenantId>().unwrap(), actor.to_owned())
    }

    fn asked() -> Approval {
        approval(100, 200)
    }

    fn in_state(state: &str) -> Approval {
        Approval { state: ApprovalState::parse(state), ..asked() }
    }

    fn answered(answering: Answering) -> (Approval, Option<AllowRule>) {
        match answering {
            Answering::Counts { approval, rule } => (*approval, rule.map(|rule| *rule)),
            other => panic!("it should have counted: {other:?}"),
        }
    }

    fn answer(approval: &Approval, answer: &Answer, now: i64) -> Answering {
        approval.answer(&somebody("b"), answer, OwnCalls::MayNotApprove, now)
    }

    #[test]
    fn names_of_states_come_back() {
        for name in ALL {
            assert_eq!(ApprovalState::parse(name).as_str(), name);
        }
        assert_eq!(ApprovalState::parse("paused"), ApprovalState::Unknown("paused".to_owned()));
    }

    #[test]
    fn a_yes_in_time_counts_and_says_who_gave_it() {
        let (approval, rule) = answered(answer(&asked(), &Answer::AllowOnce, 199));
        assert_eq!((approval.state, approval.updated_at, rule), (ApprovalState::Approved, 199, None));
        let by = Answered { by: "b".to_owned(), reason: None, rule: None, at: 199 };
        assert_eq!(approval.answered, Some(by));
    }

    #[test]
    fn a_no_counts_with_its_reason() {
        let no = Answer::Deny { reason: Some("not today".to_owned()) };
        let (approval, rule) = answered(answer(&asked(), &no, 150));
        assert_eq!((approval.state, rule), (ApprovalState::Denied, None));
        assert_eq!(approval.answered.unwrap().reason.as_deref(), Some("not today"));
    }

    #[test]
    fn only_a_pending_question_is_answered() {
        for state in &ALL[1..] {
            for given in [Answer::AllowOnce, DENY] {
                assert_eq!(answer(&in_state(state), &given, 150), Answering::Settled, "{state}");
            }
        }
    }

    #[test]
    fn an_answer_at_its_time_or_later_lets_it_expire() {
        for now in [200, 201, i64::MAX] {
            for given in [Answer::AllowOnce, DENY] {
                let Answering::Expires(expired) = answer(&asked(), &given, now) else { panic!("{now}") };
                assert_eq!((&expired.state, expired.updated_at), (&ApprovalState::Expired, now));
                assert_eq!(expired.answered, None);
            }
        }
    }

    #[test]
    fn whoever_asked_may_not_approve_but_may_deny_where_policy_says_so() {
        let (own, other) = (somebody("a"), somebody("b"));
        let say = |by: &Principal, answer: &Answer, own| asked().answer(by, answer, own, 150);
        let always = Answer::AllowAlways(NewAllowRule { id: id(), matches: whole() });
        for yes in [&Answer::AllowOnce, &always] {
            assert_eq!(say(&own, yes, OwnCalls::MayNotApprove), Answering::Own);
            answered(say(&own, yes, OwnCalls::MayApprove));
            answered(say(&other, yes, OwnCalls::MayNotApprove));
        }
        answered(say(&own, &DENY, OwnCalls::MayNotApprove));
    }

    fn id() -> AllowRuleId {
        Id::from_parts(9, [9; 10])
    }

    fn whole() -> AllowMatch {
        AllowMatch::Commands(vec![command("/usr/bin/git", &["log"])])
    }

    #[test]
    fn a_yes_for_always_saves_the_rule_that_was_asked_about() {
        let always = Answer::AllowAlways(NewAllowRule { id: id(), matches: whole() });
        let (approval, rule) = answered(answer(&asked(), &always, 150));
        assert_eq!(approval.answered.as_ref().unwrap().rule, Some(id()));
        let expected = AllowRule {
            id: id(),
            scope: approval.scope,
            tool: "exec".to_owned(),
            matches: whole(),
            created_by: "b".to_owned(),
            approval: Some(approval.id),
            created_at: 150,
            last_used_at: None,
        };
        assert_eq!(rule, Some(expected));
    }

    #[test]
    fn a_rule_that_a_caller_made_up_is_not_saved() {
        let matches = AllowMatch::Commands(vec![command("/usr/bin/rm", &["-rf"])]);
        let always = Answer::AllowAlways(NewAllowRule { id: id(), matches });
        assert_eq!(answer(&asked(), &always, 150), Answering::CannotBeSaved);
    }

    #[test]
    fn what_is_open_expires_at_its_time_and_nothing_else_does() {
        let last = 200 + GRACE_MS;
        for (state, now, expires) in [
            ("pending", 199, false),
            ("pending", 200, true),
            ("pending", 201, true),
            ("approved", 200, false),
            ("approved", last - 1, false),
            ("approved", last, true),
            ("approved", last + 1, true),
        ] {
            let expired = in_state(state).expire(now);
            assert_eq!(expired.is_some(), expires, "{state} at {now}");
            let after = expired.map(|expired| (expired.state, expired.updated_at));
            assert!(after.is_none_or(|after| after == (ApprovalState::Expired, now)));
        }
        for state in &ALL[2..] {
            assert_eq!(in_state(state).expire(i64::MAX), None, "{state}");
        }
        let forever = Approval { expires_at: i64::MAX, ..in_state("approved") };
        assert_eq!(forever.deadline(), Some(i64::MAX));
    }

    #[test]
    fn only_what_is_open_is_cancelled() {
        for state in ALL {
            let cancelled = in_state(state).cancel(300);
            assert_eq!(cancelled.is_some(), matches!(state, "pending" | "approved"), "{state}");
            let after = cancelled.map(|after| (after.state, after.updated_at));
            assert!(after.is_none_or(|after| after == (ApprovalState::Cancelled, 300)));
        }
    }

    #[test]
    fn a_yes_is_used_once_and_for_the_same_call() {
        let yes = in_state("approved");
        let (used, grant) = yes.use_up(&yes.digest, 150).unwrap();
        assert_eq!((used.state.clone(), used.updated_at), (ApprovalState::Used, 150));
        assert_eq!((grant.approval(), grant.digest()), (yes.id, &yes.digest));
        assert_eq!(used.use_up(&yes.digest, 150), Err(UseRefused::State(ApprovalState::Used)));
        let other = Digest::stored("another".to_owned());
        assert_eq!(yes.use_up(&other, 150), Err(UseRefused::OtherCall));
    }

    #[test]
    fn nothing_but_a_yes_in_time_is_used() {
        for state in ALL {
            let one = in_state(state);
            let found = one.use_up(&one.digest, 150).map(|_| ()).err();
            let expected = (state != "approved").then_some(UseRefused::State(one.state));
            assert_eq!(found, expected, "{state}");
        }
        let yes = in_state("approved");
        let late = Err(UseRefused::State(ApprovalState::Expired));
        assert!(yes.use_up(&yes.digest, 199 + GRACE_MS).is_ok());
        assert_eq!(yes.use_up(&yes.digest, 200 + GRACE_MS), late);
    }

    #[test]
    fn refusals_say_why() {
        assert_eq!(UseRefused::OtherCall.to_string(), "the approval was given for another call");
        let denied = UseRefused::State(ApprovalState::Denied);
        assert_eq!(denied.to_string(), "the approval is denied");
    }
}
