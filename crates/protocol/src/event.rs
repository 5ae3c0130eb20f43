//! What a run tells whoever listens. Deltas are provisional until the terminal event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::api::ApprovalView;
use crate::error::ErrorBody;
use crate::id::{ApprovalId, RunId};
use crate::message::Usage;
use crate::run::ModelRef;

/// One event of a run. After a restart the next attempt replaces the text of the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    pub run_id: RunId,
    pub attempt: u32,
    /// From 1 in each attempt. Whoever comes late misses only what tools said while they ran.
    #[ts(type = "number")]
    pub seq: u64,
    #[serde(flatten)]
    pub body: RunEventBody,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunEventBody {
    /// A model call began.
    Started,
    /// More of the answer's text.
    TextDelta { text: String },
    /// More of what the model thinks, for those who want to see it.
    ThinkingDelta { text: String },
    /// A call is about to be decided and, if it may, run.
    ToolStarted {
        call_id: String,
        tool: String,
        #[ts(type = "unknown")]
        args: Value,
    },
    /// What a tool that runs has said since.
    ToolUpdate { call_id: String, text: String },
    /// The call is over; its result is in the log.
    ToolEnded {
        call_id: String,
        tool: String,
        ok: bool,
        /// The beginning of what came of it.
        text: String,
        #[ts(type = "number")]
        duration_ms: u64,
        /// It was decided and shown, and not run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shadow: bool,
    },
    /// A person is asked. The run keeps its place and waits.
    ApprovalAsked { call_id: String, approval: ApprovalView },
    /// The question is over, whatever the answer was.
    ApprovalSettled { call_id: String, approval_id: ApprovalId },
    /// Somebody wrote while the run was under way; the model reads it next.
    Steered { run_id: RunId, text: String },
    /// The conversation has grown too long and is being summed up.
    CompactionStarted {
        #[ts(type = "number")]
        tokens: u64,
    },
    CompactionEnded {
        #[ts(type = "number")]
        tokens_before: u64,
        #[ts(type = "number")]
        tokens_after: u64,
        /// No model could sum it up; older lines are left out with a note instead.
        mechanical: bool,
    },
    /// What the last model call used, and how full the model's window is.
    Usage {
        usage: Usage,
        #[ts(type = "number")]
        context_tokens: u64,
        #[ts(type = "number")]
        window: u64,
    },
    /// A model or a credential could not be used; the next one of the chain is tried.
    ModelSwitched {
        from: ModelRef,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile_id: Option<String>,
        /// The class of the failure, such as `rateLimit`.
        reason: String,
        message: String,
    },
    /// A budget that only warns is exceeded.
    OverBudget { message: String },
    /// The run ended well; its commit has returned.
    Completed { text: String },
    /// The run ended otherwise; its commit has returned.
    Failed { error: ErrorBody },
}
