//! SENDING and SENT: the commits around each send to a network, and what a person decides about those that failed.

use async_trait::async_trait;
use tidegate_policy::Principal;
use tidegate_protocol::{ChannelName, OutboxId, RunId, SendOutcome, TenantId};

use crate::error::Result;
use crate::lease::Owner;
use crate::library::OutboxRow;

#[async_trait]
pub trait Outbox: Send + Sync {
    /// Lanes with something to send, those due first.
    async fn lanes(&self, tenant: &TenantId, limit: u32) -> Result<Vec<Lane>>;

    /// SENDING: takes the head of a lane if nothing of the lane is being sent and its time has come. The head of a
    /// void owner (an earlier incarnation, or an instance silent for longer than `ttl_ms` by the database's clock) is
    /// taken over as doubtful: it may have gone out. `StaleFence` when `owner` itself is void.
    async fn claim_send(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        lane: &str,
        ttl_ms: i64,
        now: i64,
    ) -> Result<NextSend>;

    /// SENT: what became of it. A part that is rejected, or unknown, ends the rest of its reply as `dropped`.
    /// `StaleFence` when the claim is no longer this owner's: the row was settled by somebody else.
    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState>;

    /// A person wants it sent (again): `unknown`, `dead` or `dropped` becomes `pending`, and so do the later parts of
    /// the same reply that were dropped. Its attempts count from nothing. With an audit row.
    async fn retry_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided>;

    /// A person gives it up: `pending`, `unknown` or `dead` becomes `dropped`, and so does the rest of its reply.
    /// With an audit row.
    async fn drop_send(&self, principal: &Principal, id: OutboxId, now: i64) -> Result<Decided>;

    /// Parts that are `dead` or `unknown` and were not told to the owner yet, the oldest first.
    async fn undelivered(&self, tenant: &TenantId, limit: u32) -> Result<Vec<OutboxRow>>;

    /// Notes that the owner was told.
    async fn note_told(&self, tenant: &TenantId, ids: &[OutboxId], now: i64) -> Result<()>;
}

/// A target with parts waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    pub name: String,
    pub channel: ChannelName,
    pub account_id: String,
    /// When its head may go out, in milliseconds since the epoch.
    pub due_at: i64,
}

/// A finished part to store with FINISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPart {
    pub id: OutboxId,
    pub channel: ChannelName,
    pub account_id: String,
    /// Parts of one lane go out one after another.
    pub lane: String,
    pub body: String,
}

/// What a lane has to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextSend {
    Granted(Sending),
    /// Its head waits until then.
    Later(i64),
    /// Its head is being sent by somebody alive.
    Busy,
    Empty,
}

/// A part that this owner may now send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    pub tenant: TenantId,
    pub id: OutboxId,
    pub run: RunId,
    pub channel: ChannelName,
    pub account_id: String,
    pub lane: String,
    pub body: String,
    pub owner: Owner,
    /// 1 for the first try.
    pub attempt: u32,
    /// An owner died while it was sending this: it may have gone out.
    pub doubtful: bool,
}

/// What came of a person's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// This many parts changed.
    Done {
        parts: u32,
    },
    /// It is in a state in which there is nothing to decide.
    Refused(OutboxState),
    NotFound,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxState {
    /// Waits for its turn or its time.
    Pending,
    Sending,
    Sent,
    /// Refused for good.
    Dead,
    /// Nobody knows; shown to the owner, never repeated by itself.
    Unknown,
    /// An earlier part of the same reply did not go out.
    Dropped,
    /// Stored by a newer release.
    Other(String),
}

impl OutboxState {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
            Self::Dropped => "dropped",
            Self::Other(raw) => raw,
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "pending" => Self::Pending,
            "sending" => Self::Sending,
            "sent" => Self::Sent,
            "dead" => Self::Dead,
            "unknown" => Self::Unknown,
            "dropped" => Self::Dropped,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether a person may want it sent (again).
    pub fn may_be_retried(&self) -> bool {
        matches!(self, Self::Unknown | Self::Dead | Self::Dropped)
    }

    /// Whether a person may give it up.
    pub fn may_be_dropped(&self) -> bool {
        matches!(self, Self::Pending | Self::Unknown | Self::Dead)
    }

    /// The state a send outcome leads to.
    pub fn after(outcome: &SendOutcome) -> Self {
        match outcome {
            SendOutcome::Sent { .. } => Self::Sent,
            SendOutcome::NotSent { .. } => Self::Pending,
            SendOutcome::Rejected { .. } => Self::Dead,
            SendOutcome::Unknown { .. } => Self::Unknown,
        }
    }
}
