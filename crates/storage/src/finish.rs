//! The engine's verbs on runs: accept, claim, finish, abort.

use async_trait::async_trait;
use tidegate_policy::{BudgetRefusal, Principal, Reservation};
use tidegate_protocol::{ErrorBody, ErrorCode, Origin, RunId, RunState, SessionKey, TenantId, Usage};

use crate::accept::{Accept, Accepted, Claim, Waiting};
use crate::error::Result;
use crate::journal::NewEntry;
use crate::lease::{Lease, Owner};
use crate::ledger::NewCall;
use crate::outbox::NewPart;

#[async_trait]
pub trait Runs: Send + Sync {
    /// ACCEPT. Returns after its commit; only then may anything be acknowledged. `NotFound` when the principal is of
    /// another tenant; `StaleFence`, and nothing accepted, when the owner is void or the run that starts this one has
    /// ended.
    async fn accept(&self, accept: Accept) -> Result<Accepted>;

    /// Claims the session's oldest queued run if no other is under way, or if the one under way belongs to an owner
    /// that is void: an earlier incarnation, or an instance silent for longer than `ttl_ms` by the database's clock.
    /// `StaleFence` when `owner` itself is void. A run taken over that way counts one more attempt, as [`Instances::recover`](crate::Instances::recover) does.
    ///
    /// A queued run whose caller waits in another process is that process's to run: `Busy` while it lives, ended as
    /// interrupted, and passed over, once it is void.
    async fn claim(&self, key: &SessionKey, owner: &Owner, ttl_ms: i64, now: i64) -> Result<Claim>;

    /// FINISH. Log entries, the run's terminal state, model calls, what its budgets spent, outbox rows and the audit
    /// row in one commit; and the end of what the run started, where that [ends with it](Ending::ends_started).
    async fn finish(&self, lease: &Lease, finish: Finish) -> Result<Finished>;

    /// Holds the first of these that its budgets have room for, in place of what the run held. When they have room for
    /// none, it goes on holding what it did; the refusal of the last one is answered, counted and in the audit.
    async fn reserve(
        &self,
        lease: &Lease,
        wanted: Vec<Reservation>,
        now: i64,
    ) -> Result<std::result::Result<usize, BudgetRefusal>>;

    /// Gives an unfinished run back because the process ends in good order. It does not count as an attempt: a run
    /// that somebody can still be answered for is queued again in its old place, one whose caller waits ends as
    /// interrupted. Answers which.
    async fn release(&self, lease: &Lease, now: i64) -> Result<RunState>;

    /// Sessions with something to claim: idle with a run queued, or held by an owner that is void (as in
    /// [`claim`](Runs::claim)). The first of every lane and agent come first, then the second, and so on, and among those
    /// the oldest: so that within any bound nobody's queue hides another's.
    async fn waiting(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        ttl_ms: i64,
        now: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>>;

    /// The session's oldest queued run, if none of the session is under way.
    async fn next(&self, key: &SessionKey) -> Result<Option<Waiting>>;

    /// Ends a run from outside, and with it those it started, whatever they started too: bumps the fence, so that its
    /// holder can no longer write, and writes the end. What it reserved is given back if it never began, and else counts
    /// as spent until [`meter`](crate::Ledger::meter) tells what it used. A run that has ended already is left alone, and
    /// so are those it started.
    async fn abort(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome>;

    /// The same for a run that has not begun; one that has is left alone (`Begun`).
    async fn abort_queued(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome>;

    /// Removes a session key with all its logs and runs; the audit row stays. Refused while a run has not ended. Lines
    /// that a fork of another key shares stay for it, and are listed no more.
    /// Returns the names of the logs removed (alias, else id), for their transcript files.
    async fn delete_session(&self, principal: &Principal, key: &SessionKey, now: i64) -> Result<Vec<String>>;
}

/// How a run ends.
#[derive(Debug, Clone)]
pub struct Finish {
    pub ending: Ending,
    /// What joins the log now, oldest first.
    pub entries: Vec<NewEntry>,
    /// Model calls of the run that are not in the ledger yet. The run used, and its budgets count, what all its calls
    /// used, those of earlier steps and attempts too.
    pub calls: Vec<NewCall>,
    /// The reply's parts; empty when the caller waits for the answer.
    pub parts: Vec<NewPart>,
    /// What another conversation is told, accepted in the same commit.
    pub announce: Option<Box<Accept>>,
    /// The key has no current log any more: the next message begins a fresh one.
    pub closes_session: bool,
    /// How much of the model's window the conversation fills, if it was found out.
    pub context_tokens: Option<u64>,
    pub principal: Principal,
    pub now: i64,
}

impl Finish {
    /// An end that writes nothing but itself.
    pub fn bare(ending: Ending, principal: Principal, now: i64) -> Self {
        Self {
            ending,
            entries: Vec::new(),
            calls: Vec::new(),
            parts: Vec::new(),
            announce: None,
            closes_session: false,
            context_tokens: None,
            principal,
            now,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The model that answered is remembered with the session.
    Completed(Origin),
    Failed(ErrorBody),
    Aborted(ErrorBody),
}

impl Ending {
    /// Whether what the run started ends in the same commit: somebody ended it, or its time is over, and nobody is left
    /// who would read what that finds.
    pub fn ends_started(&self) -> bool {
        match self {
            Self::Completed(_) => false,
            Self::Failed(error) => error.code == ErrorCode::DeadlineExceeded,
            Self::Aborted(_) => true,
        }
    }

    pub fn state(&self) -> RunState {
        match self {
            Self::Completed(_) => RunState::Completed,
            Self::Failed(_) => RunState::Failed,
            Self::Aborted(_) => RunState::Aborted,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The log's last position after this commit.
    pub head_seq: i64,
    /// Whether another run of the session waits.
    pub more: bool,
    /// What all calls of the run used.
    pub usage: Usage,
    /// What became of the announcement.
    pub announced: Option<Accepted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortOutcome {
    Aborted,
    AlreadyEnded(RunState),
    /// It is under way, and only a waiting one was to be ended.
    Begun,
    NotFound,
}

/// The tenant a lease belongs to.
impl Lease {
    pub fn tenant(&self) -> &TenantId {
        &self.key.scope.tenant
    }
}
