//! Questions of a run, put to the person who asked it.

use std::convert::Infallible;

use tidegate_protocol::ApprovalId;
use tidegate_protocol::api::{AnswerApproval, ApprovalAnswered, ApprovalView};
use tidegate_runtime::Shutdown;
use tokio::sync::mpsc;

use crate::app::App;
use crate::commands::question::Question;
use crate::failure::Failure;
use crate::output::complain;
use crate::texts::runs as words;

/// Puts one question after the other, as long as the run goes on and nobody wants its end. Somebody else may be faster.
pub(super) async fn put_questions(
    app: &App,
    cancel: &Shutdown,
    questions: &mut mpsc::UnboundedReceiver<ApprovalView>,
    answer: impl AsyncFn(ApprovalId, AnswerApproval) -> Result<ApprovalAnswered, Failure>,
) -> Infallible {
    while let Some(approval) = questions.recv().await {
        let said = tokio::select! {
            said = Question::new(app, &approval).put() => said,
            () = cancel.requested() => break,
        };
        match answer(approval.id, said).await {
            Ok(answered) if answered.won => {}
            Ok(_) => complain(app.say(words::ANSWERED_ELSEWHERE)),
            Err(failure) => complain(app.message(&failure.message)),
        }
    }
    std::future::pending().await
}
