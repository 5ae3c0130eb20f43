//! SENDING and SENT: the commits around each send to a network.

use async_trait::async_trait;
use tidegate_protocol::{OutboxId, RunId, SendOutcome, TenantId};

use crate::error::Result;
use crate::lease::Owner;

#[async_trait]
pub trait Outbox: Send + Sync {
    /// SENDING: takes the head of a lane in which nothing is being sent and whose time has come.
    /// `StaleFence` when the owner is void.
    async fn claim_send(&self, tenant: &TenantId, owner: &Owner, now: i64) -> Result<Option<Sending>>;

    /// SENT: what became of it. A part that is rejected, or unknown, ends the rest of its reply as `dropped`.
    /// `StaleFence` when the claim is no longer this owner's: the row was settled by somebody else.
    async fn settle_send(&self, sending: &Sending, outcome: SendOutcome, now: i64) -> Result<OutboxState>;
}

/// A finished part to store with FINISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPart {
    pub id: OutboxId,
    /// Parts of one lane go out one after another.
    pub lane: String,
    pub body: String,
}

/// A part that this owner may now send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    pub tenant: TenantId,
    pub id: OutboxId,
    pub run: RunId,
    pub lane: String,
    pub body: String,
    pub owner: Owner,
    /// 1 for the first try.
    pub attempt: u32,
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
