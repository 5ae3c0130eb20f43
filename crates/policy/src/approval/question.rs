//! A question from a prepared call, and an approval from a question.

use tidegate_protocol::{ApprovalId, RunId};

use super::{AllowMatch, Approval, ApprovalState, Question};
use crate::call::Prepared;
use crate::tools::Decision;

impl Question {
    /// Asks about the call as it was prepared. The rule is dropped where the decision, or the call, cannot be saved.
    pub fn of(prepared: &Prepared, decision: &Decision, rule: Option<AllowMatch>) -> Self {
        let opaque = prepared.plan().is_some_and(|plan| plan.opaque().is_some());
        Self {
            tool: prepared.tool().to_owned(),
            args: prepared.args().clone(),
            plan: prepared.plan().cloned(),
            subjects: prepared.subjects().to_vec(),
            preview: prepared.preview().map(str::to_owned),
            reason: decision.reason.clone(),
            rule: rule.filter(|_| decision.can_be_saved && !opaque),
        }
    }
}

impl Approval {
    /// A question that is put now, about exactly this call.
    pub fn ask(
        id: ApprovalId,
        run: Option<RunId>,
        prepared: &Prepared,
        question: Question,
        now: i64,
        expires_at: i64,
    ) -> Self {
        let requester = prepared.requester();
        Self {
            id,
            scope: requester.scope.clone(),
            session: requester.session.clone(),
            run,
            call_id: prepared.call().id.clone(),
            tool: prepared.tool().to_owned(),
            digest: prepared.digest().clone(),
            requester: requester.actor.clone(),
            question,
            state: ApprovalState::Pending,
            answered: None,
            created_at: now,
            expires_at,
            updated_at: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::testing::{decision, exec_call, shell_call};

    #[test]
    fn a_question_shows_the_call_that_was_prepared() {
        let call = exec_call(&[&["git", "log"]]);
        let asked = Question::of(&call, &decision(true), AllowMatch::of(&call));
        assert_eq!((asked.tool.as_str(), &asked.args), ("exec", call.args()));
        assert_eq!(asked.plan.as_ref(), call.plan());
        assert_eq!(asked.reason, "every command asks");
        assert_eq!(asked.rule, AllowMatch::of(&call));
    }

    #[test]
    fn what_cannot_be_saved_offers_no_rule() {
        let call = exec_call(&[&["git", "log"]]);
        let rule = AllowMatch::of(&call);
        assert_eq!(Question::of(&call, &decision(false), rule.clone()).rule, None);
        assert_eq!(Question::of(&shell_call("a &"), &decision(true), rule).rule, None);
    }

    #[test]
    fn an_approval_is_bound_to_its_call_and_its_requester() {
        let call = exec_call(&[&["git", "log"]]);
        let asked = Question::of(&call, &decision(true), None);
        let id = tidegate_protocol::Id::from_parts(1, [1; 10]);
        let approval = Approval::ask(id, None, &call, asked, 10, 20);
        assert_eq!(&approval.digest, call.digest());
        assert_eq!(approval.requester, call.requester().actor);
        assert_eq!((approval.call_id.as_str(), approval.tool.as_str()), ("call-1", "exec"));
        assert_eq!((approval.created_at, approval.expires_at, approval.updated_at), (10, 20, 10));
        assert_eq!(approval.state, ApprovalState::Pending);
    }
}
