//! Sending: a reply, the finished parts it renders to, and the four ways a send can end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::error::ErrorBody;
use crate::inbound::{Attachment, OutboundTarget};
use crate::name::ChannelName;

/// What an agent answers, before a connector renders it for its network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    pub channel: ChannelName,
    pub account_id: String,
    pub target: OutboundTarget,
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// The message that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
    /// Set when the run failed: `text` then tells a person so, this tells a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// A message that came in, as an answer to it may show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// The network's own id.
    pub message_id: String,
    pub text: String,
}

/// One finished piece of a reply. An outbox row holds its bytes; it is never split again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The bytes as the connector will send them.
    pub body: String,
    /// Parts with the same lane go out one after another.
    pub lane: String,
}

/// How a send ended. What had its first byte on the wire without a parsed answer is `Unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SendOutcome {
    /// The network took it and gave it this id.
    Sent { id: String },
    /// It certainly did not arrive; try again from this time on (milliseconds since the epoch).
    NotSent {
        #[ts(type = "number")]
        retry_at: i64,
        reason: String,
    },
    /// The network refuses it for good.
    Rejected { reason: String },
    /// Nobody knows. Never blindly repeated.
    Unknown { reason: String },
}

/// What can be found out about a send whose end nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The network drops a second send with the same key: sending again is safe.
    SameKey,
    /// The network can be read: see [`Connector::find`](crate::Connector::find).
    ReadBack,
    /// Nothing.
    Blind,
}

/// What reading back found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Sent {
        id: String,
    },
    /// It certainly did not arrive.
    Absent,
    Unknown {
        reason: String,
    },
}
