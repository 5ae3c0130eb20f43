//! A question from a prepared call, and an approval from a question.

use serde_json::Value;
use tidegate_protocol::{ApprovalId, RunId};

use super::{AllowMatch, Approval, ApprovalState, Question};
use crate::call::Prepared;
use crate::exec::Plan;
use crate::tools::Decision;

impl Question {
    /// Asks about the call as it was prepared. The rule is dropped where the decision, or the call, cannot be saved.
    pub fn of(prepared: &Prepared, decision: &Decision, rule: Option<AllowMatch>) -> Self {
        let opaque = prepared.plan().is_some_and(|plan| plan.opaque().is_some());
        Self {
            tool: prepared.tool().to_owned(),
            args: covered(prepared.args()),
            root: prepared.requester().root.clone(),
            plan: prepared.plan().map(Plan::without_env),
            subjects: prepared.subjects().to_vec(),
            preview: prepared.preview().map(str::to_owned),
            reason: decision.reason.clone(),
            rule: rule.filter(|_| decision.can_be_saved && !opaque),
        }
    }
}

/// The arguments with the values of headers that are likely keys covered: questions are kept and shown. An approval is
/// bound to the values all the same.
fn covered(args: &Value) -> Value {
    let mut args = args.clone();
    if let Some(Value::Object(headers)) = args.get_mut("headers") {
        for (_, value) in headers.iter_mut().filter(|(name, _)| is_key(name)) {
            let length = value.as_str().map_or_else(|| value.to_string().len(), |text| text.chars().count());
            *value = format!("({length} characters, not shown)").into();
        }
    }
    args
}

fn is_key(header: &str) -> bool {
    const PARTS: [&str; 9] =
        ["auth", "cookie", "token", "key", "secret", "password", "credential", "signature", "session"];
    let header = header.to_ascii_lowercase();
    PARTS.iter().any(|part| header.contains(part))
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
    use serde_json::json;
    use tidegate_protocol::{Risk, ToolCall};

    use super::*;
    use crate::approval::testing::{decision, exec_call, shell_call};
    use crate::call::Preparation;
    use crate::exec::{FileIdentity, Lookup, PlanPlace, Program};

    struct Anything;

    impl Lookup for Anything {
        fn find(&self, word: &str, _place: &PlanPlace) -> Option<Program> {
            let identity = FileIdentity { device: 1, inode: 2, size: 3, modified: 4 };
            Some(Program { path: format!("/usr/bin/{word}"), identity, trusted: true })
        }

        fn shell(&self) -> Option<Program> {
            None
        }
    }

    #[test]
    fn a_question_shows_the_call_that_was_prepared() {
        let call = exec_call(&[&["git", "log"]]);
        let asked = Question::of(&call, &decision(true), AllowMatch::of(&call));
        assert_eq!((asked.tool.as_str(), &asked.args), ("exec", call.args()));
        assert_eq!(asked.plan, call.plan().map(Plan::without_env));
        assert_eq!(asked.reason, "every command asks");
        assert_eq!(asked.rule, AllowMatch::of(&call));
    }

    #[test]
    fn no_question_has_the_operators_environment_or_the_keys_of_headers_in_it() {
        let word = format!("hun{}", "ter2");
        let place = PlanPlace {
            cwd: "/w".to_owned(),
            env: [("TOKEN".to_owned(), word.clone())].into(),
            added_env: [("LANG".to_owned(), "C".to_owned())].into(),
        };
        let plan = Plan::of_argv(vec!["git".to_owned()], place, &Anything).unwrap();
        assert!(!format!("{plan:?}").contains(&word), "not even when it is printed");
        assert!(!serde_json::to_string(&plan).unwrap().contains(&word));
        let args =
            json!({ "headers": { "Authorization": word, "X-Api-Key": [word], "Accept": "text/html" } });
        let shown = exec_call(&[&["git", "log"]]);
        let call = ToolCall { args: args.clone(), ..shown.call().clone() };
        let preparation = Preparation { plan: Some(plan), ..Preparation::default() };
        let call = Prepared::new(call, shown.requester().clone(), Risk::Execute, false, preparation);
        let asked = Question::of(&call, &decision(true), None);
        assert!(!format!("{asked:?}").contains(&word), "{asked:?}");
        assert_eq!(asked.args["headers"]["Accept"], "text/html");
        assert_eq!(asked.args["headers"]["Authorization"], "(7 characters, not shown)");
        assert_eq!(asked.plan.as_ref().unwrap().added_env().len(), 1, "what the call added is shown");
        assert_eq!(call.args(), &args, "the call itself is what it was");
        let stored: Question = serde_json::from_value(serde_json::to_value(&asked).unwrap()).unwrap();
        assert_eq!(stored, asked);
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
