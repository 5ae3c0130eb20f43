//! A line of a conversation log. The log only grows: nothing in it is ever rewritten.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::id::{EntryId, RunId, SessionId};
use crate::message::Message;

/// One line of the log, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub session_id: SessionId,
    /// Position in the session, from 1, without a gap.
    #[ts(type = "number")]
    pub seq: i64,
    pub id: EntryId,
    pub parent_id: Option<EntryId>,
    pub run_id: RunId,
    /// Milliseconds since the epoch.
    #[ts(type = "number")]
    pub created_at: i64,
    #[serde(flatten)]
    pub body: EntryBody,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "kind", content = "body", rename_all = "camelCase")]
pub enum EntryBody {
    Message(Message),
    /// Written by a newer release; kept as it is and left out of the context.
    #[serde(untagged)]
    Unknown(#[ts(type = "unknown")] Value),
}

/// The stored name of a line's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Message,
    Unknown(String),
}

impl EntryKind {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Unknown(raw) => raw,
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "message" => Self::Message,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl EntryBody {
    /// Reads a stored body; what this release does not understand is kept, not dropped.
    pub fn from_stored(kind: &str, body: Value) -> Self {
        match EntryKind::parse(kind) {
            EntryKind::Message => match serde_json::from_value::<Message>(body.clone()) {
                Ok(message) => Self::Message(message),
                Err(_) => Self::Unknown(body),
            },
            EntryKind::Unknown(_) => Self::Unknown(body),
        }
    }

    pub fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Unknown(_) => None,
        }
    }
}
