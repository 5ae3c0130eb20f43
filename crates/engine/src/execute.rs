//! Running a claimed run to its committed end, whatever happens inside.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_agent::{Outcome, Turn};
use tidegate_models::Ledger;
use tidegate_policy::{BudgetRefusal, Principal};
use tidegate_protocol::{
    EntryBody, EntryId, ErrorBody, ErrorCode, Message, Origin, ReplyTarget, RunEventBody, RunId, RunSpec,
    RunState, SessionKey, TenantId,
};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{
    Ending, Finish, Finished, Lease, NewEntry, NewPart, POISON_CRASHES, RunRow, StoreError,
};

use crate::error::EngineError;
use crate::events::{EngineEvent, RunChange};
use crate::live::{Answer, Cancel, Live, RunEnd};
use crate::metering::{Account, total};
use crate::schedule::Permit;
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
enum End {
    Answered {
        message: Message,
        origin: Origin,
    },
    Failed(ErrorBody),
    Aborted(ErrorBody),
    /// Somebody else wrote its end.
    Ended,
    Released,
}

impl End {
    fn failed(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Failed(ErrorBody::new(code, message))
    }

    /// Its budgets have no room for it.
    fn refused(refusal: &BudgetRefusal) -> Self {
        let mut error = ErrorBody::new(ErrorCode::BudgetExceeded, refusal.to_string());
        error.details = serde_json::to_value(refusal).ok();
        Self::Failed(error)
    }
}

impl Core {
    /// Starts a run that is claimed.
    pub(crate) fn begin(self: &Arc<Self>, work: Work, lease: Lease, permit: Permit) {
        let core = Arc::clone(self);
        let task = async move {
            let live = core.live.open(work.run);
            live.begin(lease.attempt);
            core.tell(&work, lease.attempt, RunState::Running, None);
            core.execute(work, lease, &live).await;
            drop(permit);
        };
        tidegate_runtime::spawn("run", self.work.track_future(task));
    }

    /// Whatever panics on the way, the run gets its end: a connector that cannot render must not leave its session
    /// waiting for ever.
    async fn execute(self: &Arc<Self>, work: Work, lease: Lease, live: &Live) {
        let turn = Turn { lease, spec: work.spec.clone(), input: work.input.clone() };
        // Beside the run, not inside it: what its calls used is known however it ends.
        let ledger = Arc::new(Ledger::default());
        if AssertUnwindSafe(self.run_to_end(&work, &turn, live, &ledger)).catch_unwind().await.is_ok() {
            return;
        }
        let fault = || End::failed(ErrorCode::Internal, "a fault in the program ended the run");
        let told = AssertUnwindSafe(self.conclude(&work, &turn, fault(), &ledger)).catch_unwind().await;
        if told.is_err() {
            // Not even that can be told to its sender: it is kept where the owner finds it.
            let untold = Work { reply: ReplyTarget::Session, ..work };
            self.conclude(&untold, &turn, fault(), &ledger).await;
        }
    }

    async fn run_to_end(self: &Arc<Self>, work: &Work, turn: &Turn, live: &Live, ledger: &Arc<Ledger>) {
        fault::pause("engine.run.claimed").await;
        let attempt = turn.lease.attempt;
        let end = if attempt > POISON_CRASHES {
            let crashes = attempt - 1;
            End::failed(ErrorCode::Poison, format!("crashed {crashes} times; not tried again"))
        } else if let Some(refusal) = &turn.lease.refusal {
            End::refused(refusal)
        } else {
            warn_of_budget(turn, live);
            self.supervise(turn, live, ledger).await
        };
        fault::pause("engine.run.answered").await;
        self.conclude(work, turn, end, ledger).await;
    }

    /// Makes the end durable, then tells it.
    async fn conclude(self: &Arc<Self>, work: &Work, turn: &Turn, end: End, ledger: &Ledger) {
        let attempt = turn.lease.attempt;
        let outcome = match end {
            // Given back first: a run that ends with that counts as all it reserved, until its calls are told.
            End::Released => {
                self.give_back(work, &turn.lease).await;
                return self.meter_apart(work, ledger).await;
            }
            End::Ended => {
                self.meter_apart(work, ledger).await;
                return self.look_up_end(work, attempt).await;
            }
            end => self.commit(work, turn, end, ledger).await,
        };
        match outcome {
            Ok((end, more)) => {
                fault::pause("engine.run.finished").await;
                self.tell_end(work, attempt, end);
                if more {
                    self.scheduler.push(work.key.clone());
                }
            }
            Err(EngineError::Store(StoreError::StaleFence)) => {
                self.meter_apart(work, ledger).await;
                self.look_up_end(work, attempt).await;
            }
            Err(error) => {
                self.without_an_end(work, turn, error, ledger).await;
                self.meter_apart(work, ledger).await;
            }
        }
    }

    /// Somebody else writes the run's end: what it used is written beside it.
    async fn meter_apart(&self, work: &Work, ledger: &Ledger) {
        if let Err(error) = self.meter(Some(work.run), &Account::of(work), ledger.take()).await {
            tracing::warn!(%error, run = %work.run, "what the run used could not be written down");
        }
    }

    /// Its end cannot be written as it is. Without its words it may; else it is given back; and if not even that can be
    /// written, this process cannot go on.
    async fn without_an_end(self: &Arc<Self>, work: &Work, turn: &Turn, error: EngineError, ledger: &Ledger) {
        tracing::error!(%error, run = %work.run, "the run's end cannot be written");
        let body = error.body();
        if let EngineError::Store(StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Io(_)) =
            error
        {
            // The next start settles it. Whoever waits learns why.
            return self.live.end(work.run, Err(body));
        }
        let now = self.clock.now_ms();
        let calls = self.calls(&Account::of(work), ledger.calls()).unwrap_or_default();
        let bare = Finish {
            ending: Ending::Failed(body.clone()),
            entries: Vec::new(),
            usage: total(&calls),
            calls,
            parts: Vec::new(),
            principal: work.principal.clone(),
            now,
        };
        if let Ok(finished) = self.store.finish(&turn.lease, bare).await {
            ledger.take();
            self.tell_end(work, turn.lease.attempt, Err(body));
            if finished.more {
                self.scheduler.push(work.key.clone());
            }
            return;
        }
        self.live.end(work.run, Err(body));
        if let Err(error) = self.store.release(&turn.lease, now).await {
            self.fail(error);
        }
    }

    async fn supervise(&self, turn: &Turn, live: &Live, ledger: &Arc<Ledger>) -> End {
        let run_id = turn.lease.run;
        let agent = &turn.lease.key.scope.agent;
        // What was promised, narrowed by what is allowed today.
        let spec = match self.settings.narrowed(agent, &turn.spec) {
            Ok(spec) => spec,
            Err(error) => return End::Failed(error.body()),
        };
        let model = match self.models.open(agent, &spec, ledger) {
            Ok(model) => model,
            Err(error) => return End::Failed(error.body()),
        };
        let mut emit = |body: RunEventBody| live.publish(run_id, body);
        let (journal, clock) = (self.store.as_ref(), self.clock.as_ref());
        let run = tidegate_agent::run(turn, model.as_ref(), journal, clock, &mut emit);
        let limit = Duration::from_millis(turn.spec.limits.deadline_ms);
        tokio::select! {
            done = AssertUnwindSafe(run).catch_unwind() => match done {
                Ok(Ok(Outcome::Answered { message, origin })) => End::Answered { message, origin },
                Ok(Ok(Outcome::Failed { error })) => End::Failed(error),
                Ok(Err(StoreError::StaleFence)) => End::Ended,
                Ok(Err(error)) => {
                    self.watch(&error);
                    End::Failed(ErrorBody::from(&error))
                }
                Err(_) => End::failed(ErrorCode::Internal, "a fault in the program ended the run"),
            },
            () = tokio::time::sleep(limit) => {
                let message = format!("the model gave no complete answer within {} s", limit.as_secs_f64());
                End::failed(ErrorCode::DeadlineExceeded, message)
            }
            cancel = live.cancelled() => match cancel {
                Cancel::Abort(error) => End::Aborted(error),
                Cancel::Ended => End::Ended,
                Cancel::Release => End::Released,
            },
        }
    }

    /// FINISH: the log, the end and the reply in one commit. Answers the end and whether another run waits.
    async fn commit(
        self: &Arc<Self>,
        work: &Work,
        turn: &Turn,
        end: End,
        ledger: &Ledger,
    ) -> Result<(RunEnd, bool), EngineError> {
        let lease = &turn.lease;
        let now = self.clock.now_ms();
        let mut entries = Vec::new();
        let calls = self.calls(&Account::of(work), ledger.calls())?;
        let usage = total(&calls);
        let (ending, parts) = match &end {
            End::Answered { message, origin } => {
                for message in [&turn.input, message] {
                    let id: EntryId = new_id(self.clock.as_ref())?;
                    entries.push(NewEntry { id, body: EntryBody::Message(message.clone()) });
                }
                (Ending::Completed(origin.clone()), self.reply_parts(work, &Ok(message.text()))?)
            }
            End::Failed(error) => {
                (Ending::Failed(error.clone()), self.reply_parts(work, &Err(error.clone()))?)
            }
            End::Aborted(error) => (Ending::Aborted(error.clone()), Vec::new()),
            End::Ended | End::Released => return Err(StoreError::StaleFence.into()),
        };
        let lanes = lanes_of(&parts);
        let wrote = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        let principal = work.principal.clone();
        let finish = Finish { ending, entries, usage, calls, parts, principal, now };
        let Finished { head_seq, more } = self.persist(lease, finish).await?;
        // Only now: whatever fails or panics before, what was used is still there for the end that is written instead.
        ledger.take();
        self.unsealed.notify_one();
        self.mirroring.notify();
        for (lane, channel, account) in lanes {
            self.wake_lane(lane, &channel, &account);
        }
        let end = match end {
            End::Answered { message, origin } => {
                let alias = lease.alias.clone().unwrap_or_else(|| lease.session.to_string());
                // A log that begins now may have had to do without its short name.
                let session_name = if head_seq == wrote && work.reply == ReplyTarget::Caller {
                    self.session_name(lease.session).await.unwrap_or(alias)
                } else {
                    alias
                };
                let (run, created_at, text) = (work.run, work.created_at, message.text());
                Ok(Answer { run, created_at, session_name, text, origin, usage })
            }
            End::Failed(error) | End::Aborted(error) => Err(error),
            End::Ended | End::Released => return Err(StoreError::StaleFence.into()),
        };
        Ok((end, more))
    }

    /// FINISH, however long the store needs: an answer that exists must not be lost to a full disk.
    async fn persist(&self, lease: &Lease, finish: Finish) -> Result<Finished, StoreError> {
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match self.store.finish(lease, finish.clone()).await {
                Ok(finished) => return Ok(finished),
                Err(error) => error,
            };
            self.watch(&error);
            let worth_waiting = match &error {
                StoreError::Full(_) => self.ballast.free() || self.stays,
                StoreError::Unavailable(_) => self.stays,
                _ => false,
            };
            if !worth_waiting || self.stopped.is_requested() {
                return Err(error);
            }
            tracing::warn!(%error, run = %lease.run, "the run's end cannot be written yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// Gives a run back because the process ends.
    async fn give_back(&self, work: &Work, lease: &Lease) {
        match self.store.release(lease, self.clock.now_ms()).await {
            Ok(RunState::Queued) => {
                self.given_back.fetch_add(1, Ordering::Relaxed);
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
        self.scheduler.push(work.key.clone());
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
fn warn_of_budget(turn: &Turn, live: &Live) {
    for excess in &turn.lease.over_budget {
        tracing::warn!(run = %turn.lease.run, %excess, "over budget");
        live.publish(turn.lease.run, RunEventBody::OverBudget { message: excess.to_string() });
    }
}

type LaneName = (String, tidegate_protocol::ChannelName, String);

fn lanes_of(parts: &[NewPart]) -> Vec<LaneName> {
    let mut lanes: Vec<LaneName> = Vec::new();
    for part in parts {
        if !lanes.iter().any(|(lane, ..)| *lane == part.lane) {
            lanes.push((part.lane.clone(), part.channel.clone(), part.account_id.clone()));
        }
    }
    lanes
}
