//! Running a claimed run to its committed end, whatever happens inside.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_agent::{Outcome, Turn};
use tidegate_policy::Principal;
use tidegate_protocol::{EntryBody, ErrorBody, ErrorCode, Message, RunSpec, Usage};
use tidegate_runtime::{Shutdown, fault};
use tidegate_storage::{Ending, Finish, Lease, NewEntry, StoreError};

use crate::ask::{Emit, interrupted_by_signal};
use crate::error::EngineError;
use crate::start::Engine;

/// How often an owner says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);

impl Engine {
    /// Runs and finishes. A panic, a deadline or a cancellation ends the run like any failure: with a commit.
    pub(crate) async fn execute(
        &self,
        principal: &Principal,
        lease: Lease,
        spec: RunSpec,
        input: Message,
        cancel: &Shutdown,
        emit: Emit<'_>,
    ) -> Result<(), EngineError> {
        let turn = Turn { lease, spec, input };
        let outcome = match self.supervise(&turn, cancel, emit).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // The run should not stay under way because of it, if that can still be written.
                let end = End::Failed(error.body(), Usage::default());
                let _ = self.store.finish(&turn.lease, self.finish_of(principal, &turn, end)?).await;
                return Err(error);
            }
        };
        fault::pause("engine.run.answered").await;
        let finish = self.finish_of(principal, &turn, outcome)?;
        self.store.finish(&turn.lease, finish).await?;
        fault::pause("engine.run.finished").await;
        Ok(())
    }

    async fn supervise(&self, turn: &Turn, cancel: &Shutdown, emit: Emit<'_>) -> Result<End, EngineError> {
        let failed = |code, message: String| End::Failed(ErrorBody::new(code, message), Usage::default());
        let Some(reference) = turn.spec.models.first() else {
            return Ok(failed(ErrorCode::ModelUnavailable, "the run names no model".to_owned()));
        };
        let model = match tidegate_models::open(reference) {
            Ok(model) => model,
            Err(error) => return Ok(failed(ErrorCode::ModelUnavailable, error.to_string())),
        };
        let (journal, clock) = (self.store.as_ref(), self.clock.as_ref());
        let run = tidegate_agent::run(turn, model.as_ref(), journal, clock, emit);
        let limit = Duration::from_millis(turn.spec.limits.deadline_ms);
        tokio::select! {
            done = AssertUnwindSafe(run).catch_unwind() => match done {
                Ok(outcome) => Ok(outcome?.into()),
                Err(_) => Ok(failed(ErrorCode::Internal, "a fault in the program ended the run".to_owned())),
            },
            () = tokio::time::sleep(limit) => {
                let message = format!("the model gave no complete answer within {} s", limit.as_secs_f64());
                Ok(failed(ErrorCode::DeadlineExceeded, message))
            }
            () = cancel.requested() => Ok(End::Aborted(interrupted_by_signal())),
            error = self.heartbeats() => Err(error.into()),
        }
    }

    /// Says that we live until somebody else took our place. A database that does not answer now may answer the next.
    async fn heartbeats(&self) -> StoreError {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            match self.store.heartbeat(&self.owner, self.clock.now_ms()).await {
                Err(error @ StoreError::StaleFence) => return error,
                Err(error) => tracing::warn!(%error, "no heartbeat"),
                Ok(()) => {}
            }
        }
    }

    fn finish_of(&self, principal: &Principal, turn: &Turn, end: End) -> Result<Finish, EngineError> {
        let (ending, entries, usage) = match end {
            End::Answered { message, origin, usage } => {
                let entry = |message| -> Result<NewEntry, EngineError> {
                    Ok(NewEntry { id: self.entry_id()?, body: EntryBody::Message(message) })
                };
                (Ending::Completed(origin), vec![entry(turn.input.clone())?, entry(message)?], usage)
            }
            End::Failed(error, usage) => (Ending::Failed(error), Vec::new(), usage),
            End::Aborted(error) => (Ending::Aborted(error), Vec::new(), Usage::default()),
        };
        Ok(Finish {
            ending,
            entries,
            usage,
            parts: Vec::new(),
            principal: principal.clone(),
            now: self.clock.now_ms(),
        })
    }
}

/// How a supervised run ended.
enum End {
    Answered { message: Message, origin: tidegate_protocol::Origin, usage: Usage },
    Failed(ErrorBody, Usage),
    Aborted(ErrorBody),
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered { message, origin, usage } => Self::Answered { message, origin, usage },
            Outcome::Failed { error, usage } => Self::Failed(error, usage),
        }
    }
}
