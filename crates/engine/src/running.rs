//! A run under way: what it works with, and what ends it before its own end.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_agent::{Outcome, Parts};
use tidegate_protocol::{Cost, ErrorBody, ErrorCode, RunCommand};
use tidegate_storage::{Lease, Step, StoreError};

use crate::desk::RunDesk;
use crate::execute::{End, Work};
use crate::hushed::{Ending, Hushed};
use crate::journal::PatientJournal;
use crate::live::{Cancel, Live};
use crate::pace::{Pace, tick};
use crate::start::Core;
use crate::texts;
use crate::tools::AgentBox;

/// How long the tools of a run that is ended may take to end what they started.
const LAST_BREATH: Duration = Duration::from_millis(500);

impl Core {
    /// Does what the run is for, until it ends or is ended.
    pub(crate) async fn supervise(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        live: &Arc<Live>,
        pace: &Arc<Pace>,
        desk: &RunDesk<'_>,
    ) -> End {
        let ending = Ending::default();
        let limit = Duration::from_millis(work.spec.limits.deadline_ms);
        let mut running =
            pin!(AssertUnwindSafe(self.turn(work, lease, live, pace, desk, &ending)).catch_unwind());
        let ended = tokio::select! {
            done = &mut running => {
                return done.unwrap_or_else(|_| {
                    End::failed(ErrorCode::Internal, "a fault in the program ended the run")
                });
            }
            () = pace.exceeds(limit) => {
                let message = format!("the model gave no complete answer within {} s", limit.as_secs_f64());
                End::failed(ErrorCode::DeadlineExceeded, message)
            }
            () = self.note_time(lease, pace, limit) => End::Ended,
            cancelled = live.cancelled() => match cancelled {
                Cancel::Abort(error) => End::Aborted(error),
                Cancel::Ended => End::Ended,
                Cancel::Release => End::Released,
            },
        };
        // What its tools started ends with it.
        ending.cancel.cancel();
        tokio::select! {
            _ = &mut running => {}
            () = ending.idle.cancelled() => {}
            () = tokio::time::sleep(LAST_BREATH) => {}
        }
        ended
    }

    /// Writes down how long the run has worked, again and again, so that its next attempt has only what is left. Returns
    /// when that is no business of this process any more.
    async fn note_time(&self, lease: &Lease, pace: &Pace, limit: Duration) {
        let mut noted = pace.to_note();
        loop {
            noted = pace.ticks(noted, tick(limit)).await;
            if !self.note_worked(lease, noted).await {
                return;
            }
        }
    }

    /// Answers whether the run is still ours.
    pub(crate) async fn note_worked(&self, lease: &Lease, worked: Duration) -> bool {
        let worked_ms = Some(u64::try_from(worked.as_millis()).unwrap_or(u64::MAX));
        let step = Step { worked_ms, now: self.clock.now_ms(), ..Step::default() };
        match self.store.step(lease, step).await {
            Ok(_) => true,
            Err(StoreError::StaleFence) => false,
            Err(error) => {
                // The run itself will meet the same, and knows what to do about it.
                tracing::warn!(%error, run = %lease.run, "how long the run has worked could not be written down");
                true
            }
        }
    }

    async fn turn(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        live: &Arc<Live>,
        pace: &Arc<Pace>,
        desk: &RunDesk<'_>,
        ending: &Ending,
    ) -> End {
        match &work.spec.command {
            Some(RunCommand::Reset) => {
                let text = texts::NEW_SESSION.in_language(self.settings.language()).to_owned();
                return End::Done { text, closes_session: true };
            }
            Some(RunCommand::Say { text, .. }) => {
                return End::Done { text: text.clone(), closes_session: false };
            }
            Some(RunCommand::Compact { .. }) | None => {}
        }
        let agent = &work.key.scope.agent;
        // What was promised, narrowed by what is allowed today.
        let mut spec = match self.settings.narrowed(agent, &work.spec) {
            Ok(spec) => spec,
            Err(error) => return End::Failed(error.body()),
        };
        if let (Some(most), true) = (spec.limits.max_cost, lease.attempt > 1) {
            // What earlier attempts used counts.
            let used = self.row(work.run).await.map(|row| row.usage.cost.0).unwrap_or_default();
            spec.limits.max_cost = Some(Cost(most.0.saturating_sub(used)));
        }
        let model = match self.models.open(agent, &spec, desk.ledger()) {
            Ok(model) => Hushed { model, ending: ending.clone() },
            Err(error) => return End::Failed(error.body()),
        };
        let cancel = &ending.cancel;
        tokio::select! {
            () = self.toolbox.settled() => {}
            () = cancel.cancelled() => {}
        }
        let tools = AgentBox::open(self, work, &spec, cancel.clone(), Arc::clone(live), Arc::clone(pace));
        let tools = match tools {
            Ok(tools) => tools,
            Err(error) => return End::Failed(error.body()),
        };
        let turn = self.scene(work, lease, spec).await;
        let (journal, clock) = (PatientJournal(self), self.clock.as_ref());
        let parts = Parts { model: &model, journal: &journal, tools: &tools, desk, clock };
        let outcome = match &work.spec.command {
            Some(RunCommand::Compact { instructions }) => {
                tidegate_agent::sum_up(&turn, parts, instructions.as_deref()).await
            }
            _ => tidegate_agent::run(&turn, parts).await,
        };
        match outcome {
            Ok(Outcome::Answered(answer)) => End::Answered(answer),
            Ok(Outcome::SummedUp { before, after }) => {
                let values: [(&str, &dyn std::fmt::Display); 2] = [("before", &before), ("after", &after)];
                let text = texts::SUMMED_UP.fill(self.settings.language(), &values);
                End::Done { text, closes_session: false }
            }
            Ok(Outcome::NothingToSumUp) => {
                let text = texts::NOTHING_TO_SUM_UP.in_language(self.settings.language()).to_owned();
                End::Done { text, closes_session: false }
            }
            Ok(Outcome::Failed { error }) => End::Failed(error),
            Ok(Outcome::Closing) => End::Released,
            Err(StoreError::StaleFence) => End::Ended,
            Err(error) => {
                self.watch(&error);
                End::Failed(ErrorBody::from(&error))
            }
        }
    }
}
