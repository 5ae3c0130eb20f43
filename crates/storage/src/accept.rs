//! ACCEPT: the commit after which a message may be acknowledged.

use sha2::{Digest as _, Sha256};
use tidegate_policy::{Principal, Reservation};
use tidegate_protocol::{
    Inbound, InboxId, JoinMode, Lane, Message, ReplyTarget, RunId, RunSpec, SessionId, SessionKey,
};

use crate::audit::hex;
use crate::lease::{Lease, Owner};

/// Everything that becomes durable with an accepted request, in one transaction.
#[derive(Debug, Clone)]
pub struct Accept {
    pub principal: Principal,
    pub key: SessionKey,
    pub run: NewRun,
    pub session: SessionChoice,
    /// The log to begin if the key has none yet or a fresh one is wanted.
    pub new_session: NewSession,
    /// What a network delivered. A caller that waits for its answer has none: its request lives in the run row.
    pub inbound: Option<(InboxId, Inbound)>,
    pub idempotency: Option<Idempotency>,
    /// What the run may use of its budgets. A hard line without room for it does not refuse the request: the run is
    /// accepted, reserves nothing, and whoever claims it learns why it may not begin.
    pub reservation: Option<Reservation>,
    /// The session may be removed once nobody used it for a while.
    pub ephemeral: bool,
    /// Who accepts. Noted with the run: a run whose caller waits in that process ends with it.
    pub owner: Owner,
    /// Claim the run in the same commit if the session is idle.
    pub claim: bool,
    /// Milliseconds since the epoch.
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    /// The caller's own name for the run, kept beside the id.
    pub client_key: Option<String>,
    pub spec: RunSpec,
    pub input: Message,
    pub reply: ReplyTarget,
    /// Whether a run under way may take the message in, and when.
    pub join: Option<JoinMode>,
    /// The run that started this one; ended with it.
    pub parent: Option<RunId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    pub id: SessionId,
    /// A short name; left out when another log of the tenant has it already.
    pub alias: Option<String>,
}

/// Which log of the key the run belongs to. The key only moves to a fresh log when the run completes, so that a
/// failed run never loses the old conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChoice {
    Current,
    Fresh,
    /// The current one, if it was written to since then; else a fresh one. Decided when the run is claimed.
    Since(i64),
}

/// The caller's promise that two requests with this key are the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// SHA-256 of the caller's key, in hex: the key itself may be a secret.
    pub key: String,
    /// SHA-256 of what the key stands for; the same key with another fingerprint is a conflict.
    pub fingerprint: String,
    pub expires_at: i64,
}

impl Idempotency {
    pub fn new(key: &str, request: &[u8], expires_at: i64) -> Self {
        Self { key: sha256_hex(key.as_bytes()), fingerprint: sha256_hex(request), expires_at }
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What ACCEPT did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub run: RunId,
    pub admission: Admission,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The session was idle: the run is claimed and may start.
    Claimed(Lease),
    /// The run waits; this many runs of the session come before it.
    Queued { ahead: u32 },
    /// The same request came before; nothing was written. The run is the earlier one.
    Replayed,
}

/// What an attempt to claim a session's next run found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    Granted(Lease),
    /// Another run of the session is under way.
    Busy {
        run: RunId,
    },
    /// Nothing waits.
    Nothing,
}

/// A session in which something can be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub key: SessionKey,
    /// Its next run; or the one that a void owner holds.
    pub run: RunId,
    pub lane: Lane,
}

impl Waiting {
    /// `lane` as it is stored: absent in most rows, and perhaps one that only a newer release knows.
    pub fn stored(key: SessionKey, run: RunId, lane: Option<&str>) -> Self {
        let lane = lane.and_then(|lane| lane.parse().ok()).unwrap_or_else(|| Lane::of(&key));
        Self { key, run, lane }
    }
}
