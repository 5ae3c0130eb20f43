//! A question put to the person at the terminal: what would be done, and yes, always or no.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_protocol::api::{AnswerApproval, ApprovalDecision, ApprovalView};

use super::approvals::sheet;
use super::auth::ask::line_while;
use crate::app::App;
use crate::output::complain;
use crate::texts::tools as words;

/// Everything that is shown and asked, in the person's language.
pub(crate) struct Question {
    shown: String,
    choice: String,
    /// Whether "always" is among the answers.
    can_be_saved: bool,
    reason: &'static str,
}

impl Question {
    pub(crate) fn new(app: &App, view: &ApprovalView) -> Self {
        let can_be_saved = view.rule.is_some();
        let choice = if can_be_saved { words::CHOICE_OR_ALWAYS } else { words::CHOICE };
        Self {
            shown: sheet(app, view),
            choice: app.say(choice).to_owned(),
            can_be_saved,
            reason: app.say(words::WHY_NOT),
        }
    }

    /// Asks until there is an answer, or until nobody waits for one. A terminal that went away says no.
    ///
    /// A terminal is read on a thread of its own, which ends soon after this is dropped.
    pub(crate) async fn put(self) -> AnswerApproval {
        let put = Put::default();
        let wanted = Arc::clone(&put.over);
        let typed = tidegate_runtime::spawn_blocking("cli.question", move || {
            complain(&format!("\n{}", self.shown));
            let wanted = || !wanted.load(Ordering::Relaxed);
            self.answered(&mut |question| line_while(question, &wanted))
        });
        let said = typed.join().await.unwrap_or_else(|_| no(None));
        put.over.store(true, Ordering::Relaxed);
        said
    }

    fn answered(&self, typed: &mut dyn FnMut(&str) -> Option<String>) -> AnswerApproval {
        // Somebody who types something else this often does not look.
        for _ in 0..10 {
            let Some(answer) = typed(&self.choice) else { break };
            match answer.to_lowercase().as_str() {
                "y" | "yes" => return yes(ApprovalDecision::AllowOnce),
                "a" | "always" if self.can_be_saved => return yes(ApprovalDecision::AllowAlways),
                "n" | "no" => return no(typed(self.reason).filter(|reason| !reason.is_empty())),
                _ => {}
            }
        }
        no(None)
    }
}

/// A question on the terminal. Dropped before its answer, it leaves the line it stands in.
#[derive(Default)]
struct Put {
    over: Arc<AtomicBool>,
}

impl Drop for Put {
    fn drop(&mut self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            complain("");
        }
    }
}

fn yes(decision: ApprovalDecision) -> AnswerApproval {
    AnswerApproval { decision, reason: None, prefix: None }
}

fn no(reason: Option<String>) -> AnswerApproval {
    AnswerApproval { decision: ApprovalDecision::Deny, reason, prefix: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(can_be_saved: bool, lines: &[&str]) -> (ApprovalDecision, Option<String>) {
        let question = Question { shown: String::new(), choice: String::new(), can_be_saved, reason: "" };
        let mut lines = lines.iter().map(|line| (*line).to_owned());
        let said = question.answered(&mut |_| lines.next());
        (said.decision, said.reason)
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        assert_eq!(answer(true, &["Y"]), (ApprovalDecision::AllowOnce, None));
        assert_eq!(answer(true, &["", "what", "a"]), (ApprovalDecision::AllowAlways, None));
        assert_eq!(answer(true, &["n", "not now"]), (ApprovalDecision::Deny, Some("not now".into())));
        assert_eq!(answer(true, &["n", ""]), (ApprovalDecision::Deny, None));
        assert_eq!(answer(true, &[]), (ApprovalDecision::Deny, None), "nobody is there");
    }

    #[test]
    fn what_cannot_be_saved_cannot_be_allowed_for_good() {
        assert_eq!(answer(false, &["a", "y"]), (ApprovalDecision::AllowOnce, None));
        assert_eq!(answer(false, &["a"]), (ApprovalDecision::Deny, None));
    }
}
