//! A question put to the engine of this process.

use std::time::Duration;

use tidegate_engine::{Answer, Engine, EngineError};
use tidegate_policy::Principal;
use tidegate_protocol::api::ApprovalView;
use tidegate_protocol::{ErrorCode, ReplyTarget, RunEventBody, RunSpec, Scope, SessionKey};
use tidegate_runtime::Shutdown;
use tokio::sync::mpsc;

use super::inline::put_questions;
use super::request::Request;
use super::show::Show;
use crate::app::App;
use crate::failure::Failure;
use crate::reach::answer_here;

/// How long a run may wait for its turn in the session.
const PATIENCE: Duration = Duration::from_secs(10);

/// The question as the engine takes it.
pub(super) fn asked(request: &Request, scope: Scope, spec: RunSpec, key: String) -> tidegate_engine::Request {
    tidegate_engine::Request {
        principal: Principal::local_owner(scope.tenant.clone()),
        key: SessionKey::named(scope, &request.session),
        session: request.choice,
        ephemeral: false,
        text: request.text.clone(),
        commands: false,
        client_key: None,
        idempotency: Some(key),
        spec,
        reply: ReplyTarget::Caller,
        join: None,
        patience: Some(PATIENCE),
    }
}

pub(super) async fn ask(
    app: &App,
    engine: &Engine,
    asked: tidegate_engine::Request,
    show: &mut Show,
    questions: &mut mpsc::UnboundedReceiver<ApprovalView>,
) -> Result<Answer, Failure> {
    let cancel = Shutdown::new();
    let mut emit = |event: &RunEventBody| show.event(event);
    let answered = tokio::select! {
        answered = with_signals(&cancel, engine.ask(asked, &cancel, &mut emit)) => answered,
        never = put_questions(app, &cancel, questions, async |id, said| answer_here(engine, id, &said).await) => {
            match never {}
        }
    };
    show.close();
    answered
}

/// Runs to the end; a signal asks it to end early, and then decides the exit code.
async fn with_signals(
    cancel: &Shutdown,
    run: impl Future<Output = Result<Answer, EngineError>>,
) -> Result<Answer, Failure> {
    let mut run = std::pin::pin!(run);
    let mut signal = None;
    let answered = tokio::select! {
        answered = &mut run => answered,
        code = cancel.on_signal() => {
            signal = code.ok();
            run.await
        }
    };
    answered.map_err(|error| {
        let mut failure = Failure::from(error);
        if let Some(code) = signal.filter(|_| failure.code == ErrorCode::Aborted) {
            failure.exit = u8::try_from(code).unwrap_or(1);
        }
        failure
    })
}
