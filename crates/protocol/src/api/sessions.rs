//! Conversations: their logs, their titles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::id::SessionId;

/// Make a log that shares its beginning with another one, and make it the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ForkSession {
    /// The log to fork, by its id or name; the current one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The last line that is shared; all of them when absent, none for 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub after_seq: Option<i64>,
    /// The conversation that gets it; the same one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The log that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Forked {
    /// The conversation, as it goes into an address.
    pub session: String,
    pub id: SessionId,
    /// The log's name where a person sees it.
    pub name: String,
    /// The log that was the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SessionId>,
}

/// The logs of a conversation, the last used first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct BranchList {
    pub branches: Vec<BranchView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct BranchView {
    pub id: SessionId,
    /// Its name where a person sees it.
    pub name: String,
    pub current: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Lines, shared ones among them.
    #[ts(type = "number")]
    pub lines: i64,
    /// The log it was forked from, and the last line they share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub fork_seq: Option<i64>,
    #[ts(type = "number")]
    pub updated_at: i64,
}

/// Give a conversation a title, or take it away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct NameSession {
    #[serde(default)]
    pub title: Option<String>,
}
