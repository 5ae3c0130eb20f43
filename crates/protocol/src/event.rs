//! What a run tells whoever listens. Deltas are provisional until the terminal event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::error::ErrorBody;
use crate::id::RunId;
use crate::run::ModelRef;

/// One event of a run. After a restart the next attempt replaces the text of the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    pub run_id: RunId,
    pub attempt: u32,
    /// From 1 in each attempt, without a gap.
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
