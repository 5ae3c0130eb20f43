//! The management side: configuration, runs, and the audit trail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::error::ErrorBody;
use crate::id::{AuditId, RunId, SessionId};
use crate::message::Usage;
use crate::run::{ModelRef, RunState};

/// The configuration file as it stands, secrets hidden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ConfigView {
    pub path: String,
    /// Of the file's text; a change names the one it is made to.
    pub hash: String,
    /// What the file says.
    #[ts(type = "unknown")]
    pub config: Value,
    /// What it means with everything that is not said in it.
    #[ts(type = "unknown")]
    pub effective: Value,
    /// The gateway works with another text of it than stands there now; it must be started again.
    pub stale: bool,
}

/// A change of the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchConfig {
    /// The hash of the text that is changed: if somebody was faster, nothing is.
    pub base_hash: String,
    /// A merge patch: keys with their new values, `null` for one that goes.
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    #[ts(type = "Record<string, unknown>")]
    pub patch: Value,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPatched {
    pub hash: String,
    #[ts(type = "number")]
    pub revision: u64,
    /// What the owner should know about the file.
    pub warnings: Vec<String>,
    /// The gateway must be restarted to work with it, and does not do so by itself.
    pub needs_restart: bool,
    /// The gateway restarts now to work with it.
    pub restarting: bool,
    /// Why it does not, where it was to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub refused: Option<String>,
}

/// Runs, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    pub runs: Vec<RunView>,
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The whole key of its conversation.
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub state: RunState,
    pub attempt: u32,
    pub actor: String,
    /// What was asked.
    pub text: String,
    /// What was answered, for one that is asked about alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub models: Vec<ModelRef>,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Milliseconds since the epoch.
    #[ts(type = "number")]
    pub created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub finished_at: Option<i64>,
}

/// The audit trail, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    pub audit: Vec<AuditLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    pub id: AuditId,
    pub actor: String,
    pub action: String,
    pub resource_type: String,
    pub resource_id: String,
    #[ts(type = "unknown")]
    pub metadata: Value,
    /// Milliseconds since the epoch.
    #[ts(type = "number")]
    pub created_at: i64,
}
