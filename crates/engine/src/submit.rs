//! A request from somebody who waits or watches: accepted, then followed.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Principal;
use tidegate_protocol::{
    ErrorBody, ErrorCode, Id as _, JoinMode, Message, ReplyTarget, RunEvent, RunEventBody, RunId, RunSpec,
    RunState, SessionId, SessionKey,
};
use tidegate_runtime::{Shutdown, fault, new_id};
use tidegate_storage::{
    AbortOutcome, Accept, Admission, Idempotency, NewRun, NewSession, RunLookup, RunRow, SessionChoice,
    StoreError,
};

use crate::error::EngineError;
use crate::execute::Work;
use crate::live::{Answer, Cancel, Partial, Read, Reader, RunEnd};
use crate::sessions::{Plan, Standing, Step, Writer, asks_a_model};
use crate::start::{Core, Engine};

/// How often the store is asked about a run that another process may be running.
const LOOK: Duration = Duration::from_millis(500);

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    pub principal: Principal,
    pub key: SessionKey,
    pub session: SessionChoice,
    /// The session may go once nobody used it for a while.
    pub ephemeral: bool,
    pub text: String,
    /// Whether commands and directives in the text are followed; else it goes to the model as it is.
    pub commands: bool,
    /// The caller's own name for the run; its alias when absent.
    pub client_key: Option<String>,
    /// Two requests with the same key are the same request.
    pub idempotency: Option<String>,
    pub spec: RunSpec,
    pub reply: ReplyTarget,
    /// Whether a run under way may take it in, and when.
    pub join: Option<JoinMode>,
    /// How long it may wait for its turn before it ends as `SESSION_BUSY`; as long as it takes when absent.
    pub patience: Option<Duration>,
}

/// A request that is durable.
pub struct Submitted {
    pub run: RunId,
    pub created_at: i64,
    /// The same request came before; `run` is that one.
    pub replayed: bool,
    pub follower: Follower,
}

/// How a run ends whose caller asked for its end.
fn interrupted_by_signal() -> ErrorBody {
    ErrorBody::new(ErrorCode::Aborted, "interrupted by a signal")
}

impl Engine {
    /// Accepts a request. Once this returns it is durable and will come to an end.
    pub async fn submit(&self, request: Request) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        self.core.unbroken("submit", async move { engine.take(request, None).await }).await?
    }

    /// Accepts what another run asks for. It is ended with that one.
    pub(crate) async fn submit_child(
        &self,
        request: Request,
        parent: RunId,
    ) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        self.core.unbroken("submit", async move { engine.take(request, Some(parent)).await }).await?
    }

    async fn take(self, mut request: Request, parent: Option<RunId>) -> Result<Submitted, EngineError> {
        let core = &self.core;
        if core.closing.is_requested() {
            return Err(EngineError::Closing);
        }
        let text = std::mem::take(&mut request.text);
        let fingerprint = fingerprint(&request, &text);
        let Plan { first, main, ignored: _, ends } = if request.commands {
            let writer = Writer {
                principal: &request.principal,
                key: &request.key,
                standing: Standing::Full,
                message: request.idempotency.as_deref(),
                again: false,
            };
            core.plan(writer, text, request.spec.clone()).await?
        } else {
            Plan::turn(text, request.spec.clone())
        };
        core.check_models(&request.key, &main.spec).await?;
        if let Some(first) = first {
            let before = Request {
                client_key: None,
                idempotency: request.idempotency.as_deref().map(before),
                reply: ReplyTarget::Session,
                patience: None,
                ..request.clone()
            };
            self.put(before, first, &fingerprint, None).await?;
        }
        let principal = request.principal.clone();
        let submitted = self.put(request, main, &fingerprint, parent).await?;
        // Sent again it must not end what began since.
        if !submitted.replayed {
            self.end_all(&principal, ends).await?;
        }
        Ok(submitted)
    }

    /// ACCEPT of one run.
    async fn put(
        &self,
        request: Request,
        step: Step,
        fingerprint: &[u8],
        parent: Option<RunId>,
    ) -> Result<Submitted, EngineError> {
        let core = &self.core;
        let Step { text, mut spec, alone } = step;
        let join = request.join.filter(|_| !alone);
        let run: RunId = new_id(core.clock.as_ref())?;
        let session: SessionId = new_id(core.clock.as_ref())?;
        let now = core.clock.now_ms();
        let session_choice = match request.session {
            SessionChoice::Current => core.settings.log_of_now(&request.key, now),
            chosen => chosen,
        };
        let client_key = request.client_key.unwrap_or_else(|| run.alias());
        let reservation = core.reservation(&request.key, session_choice, &mut spec, &text).await?;
        let brought = spec.brought.as_mut().and_then(|brought| brought.input.take());
        let input = brought.unwrap_or_else(|| Message::user(text, now));
        let permit = core.scheduler.lanes().permit_now(spec.lane(&request.key));
        let live = core.live.open(run);
        live.accepted_in(&request.key, request.reply == ReplyTarget::Caller);
        let accept = Accept {
            principal: request.principal.clone(),
            key: request.key.clone(),
            run: NewRun {
                id: run,
                client_key: Some(client_key.clone()),
                spec: spec.clone(),
                input: input.clone(),
                reply: request.reply.clone(),
                join,
                parent,
            },
            session: session_choice,
            new_session: NewSession { id: session, alias: Some(session.alias()) },
            inbound: None,
            idempotency: request
                .idempotency
                .map(|key| Idempotency::new(&key, fingerprint, core.remembered_until(now))),
            reservation,
            ephemeral: request.ephemeral,
            owner: core.owner,
            claim: permit.is_some(),
            now,
        };
        let accepted = core.store.accept(accept).await.inspect_err(|error| {
            core.live.forget(run);
            core.watch(error);
        })?;
        fault::pause("engine.submit.accepted").await;
        if matches!(accepted.admission, Admission::Replayed) {
            core.live.forget(run);
            let row = core.row(accepted.run).await?;
            let follower = self.follow(accepted.run).await?;
            return Ok(Submitted { run: row.id, created_at: row.created_at, replayed: true, follower });
        }
        let follower = Follower { core: Arc::clone(core), run, reader: Reader::new(live) };
        let work = Work {
            run,
            key: request.key,
            client_key: Some(client_key),
            principal: request.principal,
            spec,
            input,
            reply: request.reply,
            created_at: now,
        };
        if let (Admission::Queued { .. }, Some(mode)) = (&accepted.admission, join) {
            core.live.join(&work.key, mode);
        }
        // Behind another run of its session: full lanes alone are no reason to give up.
        if let (Admission::Queued { ahead: 1.. }, Some(patience)) = (&accepted.admission, request.patience) {
            core.lose_patience(run, patience);
        }
        core.admitted(work, accepted.admission, permit);
        Ok(Submitted { run, created_at: now, replayed: false, follower })
    }

    /// Follows a run, also one that has ended or that another process runs.
    pub async fn follow(&self, run: RunId) -> Result<Follower, EngineError> {
        let core = &self.core;
        if let Some(live) = core.live.get(run) {
            return Ok(Follower { core: Arc::clone(core), run, reader: Reader::new(live) });
        }
        let live = core.live.open(run);
        let follower = Follower { core: Arc::clone(core), run, reader: Reader::new(live) };
        match core.ended(run).await {
            Ok(None) => {}
            Ok(Some(end)) => core.live.end(run, end),
            Err(error) => {
                core.live.forget(run);
                return Err(error);
            }
        }
        Ok(follower)
    }

    /// What a run under way in this process has said so far.
    pub fn partial(&self, run: RunId) -> Option<Partial> {
        self.core.live.get(run)?.partial()
    }

    /// Answers one request of somebody who waits. `emit` gets the provisional text as it comes; `cancel` ends the run
    /// as aborted.
    pub async fn ask(
        &self,
        request: Request,
        cancel: &Shutdown,
        emit: &mut (dyn FnMut(&RunEventBody) + Send),
    ) -> Result<Answer, EngineError> {
        let submitted = self.submit(request).await?;
        let (run, mut follower) = (submitted.run, submitted.follower);
        let mut asked = false;
        loop {
            tokio::select! {
                event = follower.next() => match event {
                    Some(event) => emit(&event.body),
                    None => break,
                },
                () = cancel.requested(), if !asked => {
                    asked = true;
                    self.core.cancel(run, interrupted_by_signal()).await?;
                }
            }
        }
        let end = follower.end().await;
        self.core.flush_transcripts().await?;
        end.map_err(|error| EngineError::Run { run, error })
    }

    /// Ends a run with all that it started: nobody can write for them any more, and their places are free. A conversation
    /// that waits for its result is told.
    pub async fn abort(&self, principal: &Principal, run: RunId) -> Result<AbortOutcome, EngineError> {
        let outcome = self.abort_quietly(principal, run).await?;
        match outcome {
            AbortOutcome::Aborted => self.core.announce_abort(run).await,
            // It has ended, but not all that it started.
            AbortOutcome::AlreadyEnded(_) => self.core.abort_descendants(run).await?,
            AbortOutcome::Begun | AbortOutcome::NotFound => {}
        }
        Ok(outcome)
    }

    /// The same without a word to anybody: where everything ends, nothing is to begin because of that.
    pub(crate) async fn abort_quietly(
        &self,
        principal: &Principal,
        run: RunId,
    ) -> Result<AbortOutcome, EngineError> {
        let (core, principal) = (Arc::clone(&self.core), principal.clone());
        let abort = async move {
            let outcome = core.store.abort(&principal, run, core.clock.now_ms()).await?;
            core.after_abort(run, &outcome, None).await?;
            if outcome == AbortOutcome::Aborted {
                core.end_descendants(run).await?;
            }
            Ok(outcome)
        };
        self.core.unbroken("abort", abort).await?
    }
}

/// The name of the step that comes before the one a caller's key names.
pub(crate) fn before(key: &str) -> String {
    format!("{key}#new")
}

/// What an idempotency key stands for.
fn fingerprint(request: &Request, text: &str) -> Vec<u8> {
    let Request { key, spec, reply, .. } = request;
    let mut known = format!("{key}\n{text}").into_bytes();
    if let Some(command) = &spec.command {
        known.extend(serde_json::to_vec(&(command, reply)).unwrap_or_default());
    }
    if let Some(brought) = &spec.brought {
        // What cannot be written could not be stored with the run either.
        known.extend(serde_json::to_vec(&brought.at(0)).unwrap_or_default());
    }
    known
}

fn after(now: i64, time: Duration) -> i64 {
    now.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

impl Core {
    /// Does work to its end, also when whoever asked for it goes away: between a commit and what follows from it there
    /// must be no gap. The engine does not end before it.
    pub(crate) async fn unbroken<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, EngineError> {
        let done = tidegate_runtime::spawn(name, self.work.track_future(work)).join().await;
        done.map_err(|end| StoreError::Internal(end.to_string()).into())
    }

    /// Somebody waits: they learn at once that nobody could answer.
    async fn check_models(&self, key: &SessionKey, spec: &RunSpec) -> Result<(), EngineError> {
        // What policy forbids is told as that, and not as a missing key.
        if asks_a_model(spec) && self.settings.narrowed(&key.scope.agent, spec).is_ok() {
            self.models.ready(spec).await?;
        }
        Ok(())
    }

    pub(crate) async fn row(&self, run: RunId) -> Result<RunRow, EngineError> {
        let row = self.store.run(&self.tenant, &RunLookup::Id(run)).await?;
        row.ok_or_else(|| StoreError::NotFound(format!("run {run}")).into())
    }

    /// How a run ended, as it was committed, if it has.
    pub(crate) async fn ended(&self, run: RunId) -> Result<Option<RunEnd>, EngineError> {
        let mut row = self.row(run).await?;
        // Whoever took the message in answers it.
        while let (RunState::Joined, Some(joined)) = (&row.state, row.joined) {
            row = self.row(joined).await?;
        }
        if !row.state.is_terminal() {
            return Ok(None);
        }
        if row.state == RunState::Completed {
            return Ok(Some(Ok(self.read_answer(&row).await?)));
        }
        let ended =
            || ErrorBody::new(ErrorCode::Internal, format!("the run ended as {}", row.state.as_str()));
        Ok(Some(Err(row.error.clone().unwrap_or_else(ended))))
    }

    pub(crate) async fn session_name(&self, session: SessionId) -> Result<String, EngineError> {
        let log = self.store.session_by_name(&self.tenant, &session.to_string()).await?;
        Ok(log.and_then(|log| log.alias).unwrap_or_else(|| session.to_string()))
    }

    /// Until when a key that came now stands for its request.
    pub(crate) fn remembered_until(&self, now: i64) -> i64 {
        after(now, self.retention.idempotency)
    }

    /// The same for what a network delivered.
    pub(crate) fn redelivered_until(&self, now: i64) -> i64 {
        after(now, self.retention.redelivery)
    }

    /// Ends the run if it has not begun by then.
    fn lose_patience(self: &Arc<Self>, run: RunId, patience: Duration) {
        let core = Arc::clone(self);
        let waiting = async move {
            tokio::select! {
                () = tokio::time::sleep(patience) => {}
                () = core.stopped.requested() => return,
            }
            let waited = patience.as_millis();
            let message = format!("another run of this session has not ended after {waited} ms");
            let mut error = ErrorBody::new(ErrorCode::SessionBusy, message);
            error.details =
                Some(serde_json::json!({ "waitedMs": u64::try_from(waited).unwrap_or(u64::MAX) }));
            let waits = core.live.get(run).is_some_and(|live| !live.is_started());
            if waits && let Err(error) = core.abort_queued(run, error).await {
                tracing::warn!(%error, %run, "a run that waited too long could not be ended");
            }
        };
        tidegate_runtime::spawn("patience", waiting);
    }

    /// Ends a run that waits for its turn, and tells whoever watches it `error`; one that has begun is left alone.
    pub(crate) async fn abort_queued(
        self: &Arc<Self>,
        run: RunId,
        error: ErrorBody,
    ) -> Result<AbortOutcome, EngineError> {
        let core = Arc::clone(self);
        let abort = async move {
            let principal = Principal::of_run(core.tenant.clone(), core.row(run).await?.actor);
            let outcome = core.store.abort_queued(&principal, run, core.clock.now_ms()).await?;
            core.after_abort(run, &outcome, Some(error)).await?;
            Ok(outcome)
        };
        self.unbroken("abort", abort).await?
    }

    /// Asks a run to end with this error: one under way here writes it itself, one that waits is ended in the store.
    async fn cancel(self: &Arc<Self>, run: RunId, error: ErrorBody) -> Result<(), EngineError> {
        if self.abort_queued(run, error.clone()).await? == AbortOutcome::Begun
            && let Some(live) = self.live.get(run)
        {
            live.cancel(Cancel::Abort(error));
        }
        Ok(())
    }

    /// The store ended the run: whoever runs it here stops, whoever watches is told `error`, or what the store says.
    async fn after_abort(
        &self,
        run: RunId,
        outcome: &AbortOutcome,
        error: Option<ErrorBody>,
    ) -> Result<(), EngineError> {
        if *outcome != AbortOutcome::Aborted {
            return Ok(());
        }
        fault::pause("engine.abort.committed").await;
        self.unsealed.notify_one();
        if let Some(live) = self.live.get(run) {
            live.cancel(Cancel::Ended);
        }
        let row = self.row(run).await?;
        let stored = || ErrorBody::new(ErrorCode::Aborted, "ended by somebody");
        let error = error.or_else(|| row.error.clone()).unwrap_or_else(stored);
        self.tell_end(&Work::of_row(&self.tenant, &row), row.attempt, Err(error));
        self.scheduler.lanes().ended(&row.key, run);
        self.take_up_next(&row.key).await;
        Ok(())
    }
}

/// Reads what a run tells, to its end.
pub struct Follower {
    core: Arc<Core>,
    run: RunId,
    reader: Reader,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.reader.leave(&self.core.live, self.run);
    }
}

impl Follower {
    /// The next event; `None` after the terminal one, or when the run was given back and goes on at the next start.
    pub async fn next(&mut self) -> Option<Arc<RunEvent>> {
        loop {
            match self.reader.read() {
                Read::Event(event) => return Some(event),
                Read::End => return None,
                Read::NotYet => {}
            }
            // The run may be another process's, or the engine may be gone: then only the store can tell.
            if tokio::time::timeout(LOOK, self.reader.changed()).await.is_err() {
                self.look().await;
            }
        }
    }

    async fn look(&self) {
        match self.core.ended(self.run).await {
            Ok(Some(end)) => {
                self.core.live.forget(self.run);
                self.reader.live().end(self.run, end);
            }
            // A run that somebody can still be answered for goes on at the next start: it has no end yet.
            Ok(None) if self.core.stopped.is_requested() && self.is_callers().await => {
                let error = ErrorBody::new(ErrorCode::Interrupted, "the process ended before the run did");
                self.reader.live().end(self.run, Err(error));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, run = %self.run, "the run cannot be looked up"),
        }
    }

    async fn is_callers(&self) -> bool {
        self.core.row(self.run).await.is_ok_and(|row| row.reply == ReplyTarget::Caller)
    }

    /// Waits for the end.
    pub async fn end(mut self) -> Result<Answer, ErrorBody> {
        while self.next().await.is_some() {}
        let gone = || Err(ErrorBody::new(ErrorCode::Closing, "the run goes on at the next start"));
        self.reader.end().unwrap_or_else(gone)
    }
}
