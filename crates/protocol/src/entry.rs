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
    /// What came before, in short. It changes what a model is shown, never what is stored.
    Compaction(Compaction),
    /// Written by a newer release; kept as it is and left out of the context.
    #[serde(untagged)]
    Unknown(#[ts(type = "unknown")] Value),
}

/// A summary of the older part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    pub summary: String,
    /// The first line that is still shown as it is.
    #[ts(type = "number")]
    pub first_kept_seq: i64,
    /// What the conversation had grown to.
    #[ts(type = "number")]
    pub tokens_before: u64,
    /// No model wrote it: the summary only says what was left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mechanical: bool,
    /// Files that were read and changed, so that the next summary carries them on.
    #[serde(default)]
    pub files: FileTrail,
}

/// Files the tools of a conversation touched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct FileTrail {
    pub read: Vec<String>,
    pub modified: Vec<String>,
}

/// The stored name of a line's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Message,
    Compaction,
    Unknown(String),
}

impl EntryKind {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Compaction => "compaction",
            Self::Unknown(raw) => raw,
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "message" => Self::Message,
            "compaction" => Self::Compaction,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl EntryBody {
    /// Reads a stored body; what this release does not understand is kept, not dropped. Fails when it is no JSON at all.
    pub fn from_stored(kind: &str, body: &str) -> serde_json::Result<Self> {
        let known = match EntryKind::parse(kind) {
            EntryKind::Message => serde_json::from_str(body).map(Self::Message).ok(),
            EntryKind::Compaction => serde_json::from_str(body).map(Self::Compaction).ok(),
            EntryKind::Unknown(_) => None,
        };
        known.map_or_else(|| serde_json::from_str(body).map(Self::Unknown), Ok)
    }

    pub fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Compaction(_) | Self::Unknown(_) => None,
        }
    }

    /// The kind and the body as they are stored.
    pub fn to_stored(&self) -> serde_json::Result<(EntryKind, String)> {
        Ok(match self {
            Self::Message(message) => (EntryKind::Message, serde_json::to_string(message)?),
            Self::Compaction(compaction) => (EntryKind::Compaction, serde_json::to_string(compaction)?),
            Self::Unknown(value) => (EntryKind::Unknown("unknown".to_owned()), serde_json::to_string(value)?),
        })
    }
}
