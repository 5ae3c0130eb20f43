//! A request whose caller waits: accepted, given its turn, answered.

use std::time::{Duration, Instant};

use tidegate_policy::Principal;
use tidegate_protocol::{
    EntryId, ErrorBody, ErrorCode, Id as _, Message, Origin, ReplyTarget, RunEventBody, RunId, RunSpec,
    RunState, SessionId, SessionKey,
};
use tidegate_runtime::{Shutdown, fault, new_id};
use tidegate_storage::{
    AbortOutcome, Accept, Admission, Claim, Lease, NewRun, NewSession, RunLookup, RunRow, SessionChoice,
    StoreError,
};

use crate::error::EngineError;
use crate::mirror;
use crate::start::Engine;

/// A session that another instance holds is free after this much silence.
pub(crate) const LEASE_TTL_MS: i64 = 30_000;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    pub principal: Principal,
    pub key: SessionKey,
    pub session: SessionChoice,
    pub text: String,
    pub spec: RunSpec,
    /// How long the run may wait for its turn.
    pub patience: Duration,
    /// Ends the run as aborted when it is asked for.
    pub cancel: Shutdown,
}

/// What came of it. It is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub run: RunId,
    pub created_at: i64,
    /// The log's name where a person sees it.
    pub session_name: String,
    pub text: String,
    pub origin: Origin,
}

/// How a run ends whose caller asked for its end.
pub(crate) fn interrupted_by_signal() -> ErrorBody {
    ErrorBody::new(ErrorCode::Aborted, "interrupted by a signal")
}

pub(crate) type Emit<'a> = &'a mut (dyn FnMut(RunEventBody) + Send);

impl Engine {
    /// Answers one request. `emit` gets the provisional text as it comes.
    pub async fn ask(&self, ask: Ask, emit: Emit<'_>) -> Result<Answer, EngineError> {
        let run: RunId = new_id(self.clock.as_ref())?;
        let session: SessionId = new_id(self.clock.as_ref())?;
        let created_at = self.clock.now_ms();
        let input = Message::user(ask.text.clone(), created_at);
        let accepted = self
            .store
            .accept(Accept {
                principal: ask.principal.clone(),
                key: ask.key.clone(),
                run: NewRun {
                    id: run,
                    client_key: Some(run.alias()),
                    spec: ask.spec.clone(),
                    input: input.clone(),
                    reply: ReplyTarget::Caller,
                },
                session: ask.session,
                new_session: NewSession { id: session, alias: Some(session.alias()) },
                inbound: None,
                idempotency: None,
                claim_for: Some(self.owner),
                now: created_at,
            })
            .await?;
        fault::pause("engine.ask.accepted").await;
        match accepted.admission {
            Admission::Claimed(lease) => self.answer(&ask, lease, input, emit).await?,
            Admission::Queued { .. } | Admission::Replayed => {
                self.wait_turn(&ask, accepted.run, &input, emit).await?;
            }
        }
        let row = self.row(&ask, accepted.run).await?;
        mirror::catch_up(self, &ask.key.scope.tenant).await?;
        self.read_answer(row).await
    }

    async fn answer(
        &self,
        ask: &Ask,
        lease: Lease,
        input: Message,
        emit: Emit<'_>,
    ) -> Result<(), EngineError> {
        self.execute(&ask.principal, lease, ask.spec.clone(), input, &ask.cancel, emit).await
    }

    /// Waits until our run has ended, running whatever of the session comes first: a queued run whose process died
    /// must not block the session for ever.
    async fn wait_turn(
        &self,
        ask: &Ask,
        run: RunId,
        input: &Message,
        emit: Emit<'_>,
    ) -> Result<(), EngineError> {
        let start = Instant::now();
        loop {
            match self.store.claim(&ask.key, &self.owner, LEASE_TTL_MS, self.clock.now_ms()).await? {
                Claim::Granted(lease) if lease.run == run => {
                    return self.answer(ask, lease, input.clone(), emit).await;
                }
                Claim::Granted(lease) => {
                    let row = self.row(ask, lease.run).await?;
                    let result = self
                        .execute(&ask.principal, lease, row.spec, row.input, &ask.cancel, &mut |_| {})
                        .await;
                    // A failed run of somebody else is not ours to report.
                    if let Err(error) = result {
                        tracing::warn!(%error, run = %row.id, "a waiting run failed");
                    }
                    continue;
                }
                Claim::Busy { .. } | Claim::Nothing => {
                    if self.row(ask, run).await?.state.is_terminal() {
                        return Ok(());
                    }
                }
            }
            let cancelled = ask.cancel.is_requested();
            if cancelled || start.elapsed() >= ask.patience {
                return match self.store.abort(&ask.principal, run, self.clock.now_ms()).await? {
                    AbortOutcome::AlreadyEnded(_) => Ok(()),
                    AbortOutcome::Aborted | AbortOutcome::NotFound if cancelled => {
                        Err(EngineError::Run { run, error: interrupted_by_signal() })
                    }
                    AbortOutcome::Aborted | AbortOutcome::NotFound => {
                        Err(EngineError::SessionBusy { waited_ms: start.elapsed().as_millis() })
                    }
                };
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    async fn row(&self, ask: &Ask, run: RunId) -> Result<RunRow, EngineError> {
        let row = self.store.run(&ask.key.scope.tenant, &RunLookup::Id(run)).await?;
        row.ok_or_else(|| StoreError::NotFound(format!("run {run}")).into())
    }

    /// The answer as it was committed, whoever ran it.
    async fn read_answer(&self, row: RunRow) -> Result<Answer, EngineError> {
        if row.state != RunState::Completed {
            let error = row.error.unwrap_or_else(|| {
                ErrorBody::new(ErrorCode::Internal, format!("the run ended as {}", row.state.as_str()))
            });
            return Err(EngineError::Run { run: row.id, error });
        }
        let torn = || StoreError::Damaged(format!("run {} has no answer in its log", row.id));
        let (Some(session), Some((first, last))) = (row.session, row.entries) else {
            return Err(torn().into());
        };
        let tenant = &row.key.scope.tenant;
        let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
        let entries = self.store.entries(tenant, session, first - 1, limit).await?;
        let answer = entries.iter().rev().find_map(|entry| match entry.body.message() {
            Some(message @ Message::Assistant { origin, .. }) => Some((message.text(), origin.clone())),
            _ => None,
        });
        let (text, origin) = answer.ok_or_else(torn)?;
        let log = self.store.session_by_name(tenant, &session.to_string()).await?.ok_or_else(torn)?;
        let session_name = log.alias.unwrap_or_else(|| session.to_string());
        Ok(Answer { run: row.id, created_at: row.created_at, session_name, text, origin })
    }

    pub(crate) fn entry_id(&self) -> Result<EntryId, EngineError> {
        Ok(new_id(self.clock.as_ref())?)
    }
}
