//! Running a claimed run to its committed end, whatever happens inside.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_agent::Desk as _;
use tidegate_policy::{BudgetRefusal, Principal};
use tidegate_protocol::{
    ErrorBody, ErrorCode, Message, ReplyTarget, RunEventBody, RunId, RunSpec, RunState, SessionKey, TenantId,
};
use tidegate_runtime::fault;
use tidegate_storage::{Ending, Finish, Lease, Meter, POISON_CRASHES, RunRow, StoreError};

use crate::desk::RunDesk;
use crate::error::EngineError;
use crate::events::{EngineEvent, RunChange};
use crate::lanes::Permit;
use crate::live::{Live, RunEnd};
use crate::pace::{Pace, Used};
use crate::start::Core;

/// A run as it was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) run: RunId,
    pub(crate) key: SessionKey,
    pub(crate) client_key: Option<String>,
    pub(crate) principal: Principal,
    pub(crate) spec: RunSpec,
    pub(crate) input: Message,
    pub(crate) reply: ReplyTarget,
    pub(crate) created_at: i64,
}

impl Work {
    pub(crate) fn of_row(tenant: &TenantId, row: &RunRow) -> Self {
        Self {
            run: row.id,
            key: row.key.clone(),
            client_key: row.client_key.clone(),
            principal: Principal::of_run(tenant.clone(), row.actor.clone()),
            spec: row.spec.clone(),
            input: row.input.clone(),
            reply: row.reply.clone(),
            created_at: row.created_at,
        }
    }
}

/// How a run ends, before it is committed.
pub(crate) enum End {
    Answered(Box<tidegate_agent::Answer>),
    /// A command was done; no model was asked.
    Done {
        text: String,
        /// The conversation begins anew with the next message.
        closes_session: bool,
    },
    Failed(ErrorBody),
    Aborted(ErrorBody),
    /// Somebody else wrote its end.
    Ended,
    Released,
}

impl End {
    pub(crate) fn failed(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Failed(ErrorBody::new(code, message))
    }
}

/// Its budgets have no room for it.
pub(crate) fn over_budget(refusal: &BudgetRefusal) -> ErrorBody {
    let mut error = ErrorBody::new(ErrorCode::BudgetExceeded, refusal.to_string());
    error.details = serde_json::to_value(refusal).ok();
    error
}

impl Core {
    /// Starts a run that is claimed.
    pub(crate) fn begin(self: &Arc<Self>, work: Work, lease: Lease, permit: Permit) {
        let core = Arc::clone(self);
        let task = async move {
            let live = core.live.open(work.run);
            live.begin(&work.key, lease.attempt);
            permit.begins();
            core.tell(&work, lease.attempt, RunState::Running, None);
            let limit = Duration::from_millis(work.spec.limits.deadline_ms);
            let used = Used::before(lease.worked_ms, lease.attempt, limit);
            let (lanes, scope) = (core.scheduler.lanes().clone(), work.key.scope.clone());
            let pace = Arc::new(Pace::new(lanes, scope, permit, used));
            live.goes_at(&pace);
            core.execute(work, lease, &live, &pace).await;
        };
        tidegate_runtime::spawn("run", self.work.track_future(task));
    }

    /// Whatever panics on the way, the run gets its end: a connector that cannot render must not leave its session
    /// waiting for ever.
    async fn execute(self: &Arc<Self>, work: Work, lease: Lease, live: &Arc<Live>, pace: &Arc<Pace>) {
        // Beside the run, not inside it: what its calls used is known however it ends.
        let desk = RunDesk::new(self, &work, &lease, live);
        if AssertUnwindSafe(self.run_to_end(&work, &lease, live, pace, &desk)).catch_unwind().await.is_ok() {
            return;
        }
        let fault = || End::failed(ErrorCode::Internal, "a fault in the program ended the run");
        let told = AssertUnwindSafe(self.conclude(&work, &lease, fault(), pace, &desk)).catch_unwind().await;
        if told.is_err() {
            // Not even that can be told to its sender: it is kept where the owner finds it.
            let untold = Work { reply: ReplyTarget::Session, ..work.clone() };
            self.conclude(&untold, &lease, fault(), pace, &desk).await;
        }
    }

    async fn run_to_end(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        live: &Arc<Live>,
        pace: &Arc<Pace>,
        desk: &RunDesk<'_>,
    ) {
        fault::pause("engine.run.claimed").await;
        let attempt = lease.attempt;
        let end = if attempt > POISON_CRASHES {
            let crashes = attempt - 1;
            End::failed(ErrorCode::Poison, format!("crashed {crashes} times; not tried again"))
        } else if let Some(refusal) = &lease.refusal {
            End::Failed(over_budget(refusal))
        } else {
            warn_of_budget(lease, live);
            self.supervise(work, lease, live, pace, desk).await
        };
        // Whoever watches reads what a command says as they read an answer.
        if let End::Done { text, .. } = &end
            && !text.is_empty()
        {
            live.publish(work.run, RunEventBody::TextDelta { text: text.clone() });
        }
        fault::pause("engine.run.answered").await;
        self.conclude(work, lease, end, pace, desk).await;
    }

    /// Makes the end durable, then tells it.
    async fn conclude(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        end: End,
        pace: &Pace,
        desk: &RunDesk<'_>,
    ) {
        let attempt = lease.attempt;
        let outcome = match end {
            // Given back first: a run that ends with that counts as all it reserved, until its calls are told.
            End::Released => {
                self.note_worked(lease, pace.to_note()).await;
                self.give_back(work, lease).await;
                return self.meter_apart(work, desk).await;
            }
            End::Ended => {
                self.meter_apart(work, desk).await;
                return self.look_up_end(work, attempt).await;
            }
            end => self.commit(work, lease, end, desk).await,
        };
        match outcome {
            Ok((end, more)) => {
                fault::pause("engine.run.finished").await;
                self.tell_end(work, attempt, end);
                if more {
                    self.take_up_next(&work.key).await;
                }
            }
            Err(EngineError::Store(StoreError::StaleFence)) => {
                self.meter_apart(work, desk).await;
                self.look_up_end(work, attempt).await;
            }
            Err(error) => {
                self.without_an_end(work, lease, error, desk).await;
                self.meter_apart(work, desk).await;
            }
        }
    }

    /// Somebody else writes the run's end: what it used is written beside it.
    async fn meter_apart(&self, work: &Work, desk: &RunDesk<'_>) {
        let calls = desk.remaining();
        let meter = Meter { run: Some(work.run), calls: calls.clone(), now: self.clock.now_ms() };
        match self.store.meter(&self.tenant, meter).await {
            Ok(()) => desk.booked(&calls),
            Err(error) => {
                tracing::warn!(%error, run = %work.run, "what the run used could not be written down");
            }
        }
    }

    /// Its end cannot be written as it is. Without its words it may; else it is given back; and if not even that can be
    /// written, this process cannot go on.
    async fn without_an_end(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        error: EngineError,
        desk: &RunDesk<'_>,
    ) {
        tracing::error!(%error, run = %work.run, "the run's end cannot be written");
        let body = error.body();
        if let EngineError::Store(StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Io(_)) =
            error
        {
            // The next start settles it. Whoever waits learns why.
            return self.live.end(work.run, Err(body));
        }
        let now = self.clock.now_ms();
        let calls = desk.remaining();
        let bare = Finish {
            calls: calls.clone(),
            ..Finish::bare(Ending::Failed(body.clone()), work.principal.clone(), now)
        };
        if let Ok(finished) = self.store.finish(lease, bare).await {
            desk.booked(&calls);
            self.tell_end(work, lease.attempt, Err(body));
            if finished.more {
                self.take_up_next(&work.key).await;
            }
            return;
        }
        self.live.end(work.run, Err(body));
        if let Err(error) = self.store.release(lease, now).await {
            self.fail(error);
        }
    }

    /// Gives a run back because the process ends.
    async fn give_back(&self, work: &Work, lease: &Lease) {
        match self.store.release(lease, self.clock.now_ms()).await {
            Ok(RunState::Queued) => {
                self.given_back.fetch_add(1, Ordering::Relaxed);
                self.live.give_back(work.run);
            }
            Ok(_) => {
                let error = ErrorBody::new(ErrorCode::Interrupted, "the process ended before the run did");
                self.live.end(work.run, Err(error));
            }
            Err(error) => {
                self.watch(&error);
                tracing::warn!(%error, run = %work.run, "a run could not be given back; the next start settles it");
            }
        }
    }

    /// Somebody else ended the run: tells those who watch it here how.
    async fn look_up_end(&self, work: &Work, attempt: u32) {
        match self.ended(work.run).await {
            Ok(Some(end)) => self.tell_end(work, attempt, end),
            // Another owner runs it now.
            Ok(None) => {}
            Err(error) => self.live.end(work.run, Err(error.body())),
        }
        self.take_up_next(&work.key).await;
    }

    pub(crate) fn tell_end(&self, work: &Work, attempt: u32, end: RunEnd) {
        self.run_loops.forget(work.run);
        let (state, error) = match &end {
            Ok(_) => (RunState::Completed, None),
            Err(error)
                if matches!(error.code, ErrorCode::Aborted | ErrorCode::SessionBusy | ErrorCode::Closing) =>
            {
                (RunState::Aborted, Some(error.clone()))
            }
            Err(error) if error.code == ErrorCode::Interrupted => {
                (RunState::Interrupted, Some(error.clone()))
            }
            Err(error) => (RunState::Failed, Some(error.clone())),
        };
        self.live.end(work.run, end);
        self.tell(work, attempt, state, error);
    }

    pub(crate) fn tell_queued(&self, work: &Work) {
        self.tell(work, 0, RunState::Queued, None);
    }

    fn tell(&self, work: &Work, attempt: u32, state: RunState, error: Option<ErrorBody>) {
        self.bus.publish(|| {
            EngineEvent::Run(RunChange {
                key: work.key.clone(),
                run: work.run,
                state,
                text: work.input.text(),
                client_key: work.client_key.clone(),
                attempt,
                at: work.created_at,
                error,
            })
        });
    }
}

/// A limit that only warns does so in the log and to whoever watches.
fn warn_of_budget(lease: &Lease, live: &Live) {
    for excess in &lease.over_budget {
        tracing::warn!(run = %lease.run, %excess, "over budget");
        live.publish(lease.run, RunEventBody::OverBudget { message: excess.to_string() });
    }
}
