//! Tools and approvals on our own wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::error::ErrorBody;
use crate::id::{AllowRuleId, ApprovalId, RunId};
use crate::tool::ToolResult;

/// `POST /api/v1/tools/invoke`: run one tool. The answer comes line by line as [`ToolEvent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvokeTool {
    pub call_id: String,
    pub name: String,
    #[ts(type = "unknown")]
    pub args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The folder file tools are held to, absolute. Only the control socket may name one; elsewhere it is the agent's
    /// workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    pub asking: Asking,
}

/// Who answers when a call has to be approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "lowercase")]
pub enum Asking {
    /// Whoever sent the call, on the same connection.
    Caller,
    /// Somebody else, until the question expires.
    Others,
    /// Nobody: it is denied at once.
    Nobody,
}

/// A line of the answer to [`InvokeTool`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToolEvent {
    /// It waits for an approval.
    Approval { approval: ApprovalView },
    /// What came so far.
    Update { text: String },
    /// The last line.
    Result { result: ToolResult },
    /// The last line when it could not even be tried.
    Error { error: ErrorBody },
}

/// A question as it is shown. Every text in it is inert: what could hide or move text is spelled out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    pub id: ApprovalId,
    pub agent: String,
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub tool: String,
    pub state: String,
    pub requester: String,
    /// Why it is asked.
    pub reason: String,
    #[ts(type = "unknown")]
    pub args: Value,
    /// The programs that would start, one line each, quoted so that a shell would read the same.
    pub commands: Vec<String>,
    /// Whether a shell reads a script that was not understood.
    pub shell: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the call adds to the environment, `NAME=value`.
    pub env: Vec<String>,
    /// What it touches: `path docs/a.md`, `host example.org`.
    pub subjects: Vec<String>,
    /// A diff or a text to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The rule that `allow-always` saves; absent when it cannot be saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A wider rule that may be saved instead; absent where what follows could do harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PrefixRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_reason: Option<String>,
    #[ts(type = "number")]
    pub created_at: i64,
    #[ts(type = "number")]
    pub expires_at: i64,
}

/// A rule for every command that begins like this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct PrefixRule {
    /// What to answer with: how many words after the program's name must be the same.
    pub words: u32,
    /// The rule in words.
    pub rule: String,
}

/// `POST /api/v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerApproval {
    pub decision: ApprovalDecision,
    /// Told to the model, and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `allow-always` on a command: how many words after the program's name must be the same. All of them, and no
    /// more, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalDecision {
    AllowOnce,
    AllowAlways,
    Deny,
}

/// What came of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAnswered {
    /// Whether this answer was the one that counted.
    pub won: bool,
    pub approval: ApprovalView,
}

/// `GET /api/v1/approvals`: the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalList {
    pub approvals: Vec<ApprovalView>,
}

/// `GET /api/v1/allowlist`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct AllowRuleList {
    pub rules: Vec<AllowRuleView>,
}

/// `POST /api/v1/allowlist`: allow a command for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowCommand {
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How many words after the program's name must be the same. All of them, and no more, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct AllowRuleView {
    pub id: AllowRuleId,
    pub agent: String,
    pub tool: String,
    /// In words a person can check: `/usr/bin/git status`, `/usr/bin/git log …`.
    pub rule: String,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    #[ts(type = "number")]
    pub created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub last_used_at: Option<i64>,
}
