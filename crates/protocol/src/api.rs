//! The gateway's own HTTP interface (`/api/v1`): what the page and the command line send and get.
//!
//! The gateway writes these types, `client` and the page read them. Other dialects on the same port (`/v1`) have their
//! shapes in the gateway and never here.

mod manage;
mod sessions;
mod tools;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::error::{ErrorBody, ErrorCode};
use crate::event::RunEventBody;
use crate::id::{RunId, SessionId};
use crate::message::{Origin, Role, Usage};
use crate::run::{JoinMode, ModelRef, RunState, ThinkingLevel, ToolUse};
use crate::tool::{ToolCall, ToolError, ToolResult};

pub use manage::{AuditLine, AuditList, ConfigPatched, ConfigView, PatchConfig, RunList, RunView};
pub use sessions::{BranchList, BranchView, ForkSession, Forked, NameSession};
pub use tools::{
    AllowCommand, AllowRuleList, AllowRuleView, AnswerApproval, ApprovalAnswered, ApprovalDecision,
    ApprovalList, ApprovalView, Asking, InvokeTool, PrefixRule, ToolEvent,
};

macro_rules! wire {
    ($($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($body)* }
    )+};
}

mod native;

pub use native::{
    Ack, AgentRef, ApprovalNews, ApprovalRef, CallProblem, Compacted, Cursor, DecideApproval, DecideOutbox,
    GoingDown, HealthView, Hello, ListApprovals, ListAudit, ListOutbox, ListRuns, ListSessions, MessageSent,
    MissedEvents, ModelItem, ModelList, Note, Nothing, OutboxDecision, OutboxList, OutboxPart, RenameSession,
    RequestFrame, ResumeEvents, Resumed, RunNews, RunRef, SendMessage, ServerFrame, ServerInfo,
    SessionChange, SessionRef, SessionsChanged, SocketPolicy, SubscribeSession, Subscribed, Tick, ToolItem,
    ToolList, ToolNews, ToolPhase, Unsubscribe, UsageDay, UsageOf, UsageView,
};

wire! {
    /// The body of every answer that is not a success.
    pub struct Failure {
        pub error: Problem,
    }

    /// What is wrong, and how to mend it.
    pub struct Problem {
        pub code: ErrorCode,
        pub message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub hint: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "unknown")]
        pub details: Option<Value>,
    }

    /// Who is logged in where.
    pub struct Me {
        pub name: String,
        pub version: String,
        pub agent: String,
    }

    pub struct Login {
        pub code: String,
    }

    /// An address that logs a browser in once.
    pub struct LoginLink {
        pub link: String,
    }

    /// Conversations, the most recently used first.
    pub struct SessionList {
        pub sessions: Vec<SessionItem>,
        /// There are older ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub more: bool,
    }

    pub struct SessionItem {
        /// What goes into an address: the label of the default agent's conversations, else the whole key.
        pub name: String,
        pub title: String,
        /// Milliseconds since the epoch.
        #[ts(type = "number")]
        pub updated_at: i64,
        /// Whether something waits or is under way.
        pub running: bool,
    }

    pub struct PostMessage {
        pub text: String,
        /// The caller's own key: the same key again answers the same run.
        pub key: String,
        /// Let a run that is under way read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub join: Option<JoinMode>,
    }

    pub struct Posted {
        pub run_id: RunId,
    }

    /// Everything a reader of a conversation needs to begin. Whatever it derived before is replaced.
    pub struct Snapshot {
        pub session: String,
        /// The log that is shown; absent until something in the conversation was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub session_id: Option<SessionId>,
        /// Only what came after the reader's cursor: the lines before it stay.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub partial: bool,
        /// The end of the durable log.
        pub messages: Vec<LogLine>,
        /// Where that part of the log was summed up.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub summaries: Vec<SummaryLine>,
        /// What is not in the log: waiting, under way, or ended without an answer; the newest last.
        pub runs: Vec<RunLine>,
    }

    pub struct LogLine {
        #[ts(type = "number")]
        pub seq: i64,
        pub role: Role,
        pub text: String,
        #[ts(type = "number")]
        pub at: i64,
        pub run_id: RunId,
    }

    /// From here on the model reads a summary in place of what came before. People still read all of it.
    pub struct SummaryLine {
        #[ts(type = "number")]
        pub seq: i64,
        #[ts(type = "number")]
        pub at: i64,
    }

    pub struct RunLine {
        pub run_id: RunId,
        pub state: RunState,
        /// What was asked.
        pub text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
        #[ts(type = "number")]
        pub at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<ErrorBody>,
        pub attempt: u32,
        /// The answer so far, while it is being written.
        pub partial: Option<PartialText>,
    }

    pub struct PartialText {
        pub text: String,
        /// The last delta that is in it.
        #[ts(type = "number")]
        pub seq: u64,
    }

    /// A run was accepted or changed its state.
    pub struct RunChanged {
        pub run_id: RunId,
        pub state: RunState,
        pub text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
        #[ts(type = "number")]
        pub at: i64,
        pub attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<ErrorBody>,
    }

    /// More of a provisional answer. `seq` counts from 1 in each attempt without a gap.
    pub struct Delta {
        pub run_id: RunId,
        pub attempt: u32,
        #[ts(type = "number")]
        pub seq: u64,
        pub text: String,
    }

    /// A run's lines are in the log; they replace whatever was shown of it.
    pub struct Done {
        pub run_id: RunId,
        /// The log.
        pub session_id: SessionId,
        pub messages: Vec<LogLine>,
        /// Where the conversation was summed up meanwhile.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub summaries: Vec<SummaryLine>,
    }

    /// A question whose caller waits on the same connection.
    pub struct Ask {
        pub text: String,
        pub session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Begin a fresh log of the conversation.
        #[serde(default)]
        pub new_session: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub provider: Option<String>,
        /// `provider/model` or an alias.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub thinking: Option<ThinkingLevel>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "number | null")]
        pub timeout_ms: Option<u64>,
        pub key: String,
        /// How tools may be used; as the agent may when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tools: Option<ToolUse>,
        /// Show what would be done, and do none of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub dry_run: bool,
        /// Let a run that is under way read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub join: Option<JoinMode>,
        /// Follow commands and directives in the text; else it goes to the model as it is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub commands: bool,
    }

    /// What came of a run. It is durable.
    pub struct AskAnswer {
        pub run_id: RunId,
        #[ts(type = "number")]
        pub created_at: i64,
        /// The log's name where a person sees it.
        pub session_name: String,
        pub text: String,
        pub origin: Origin,
        pub usage: Usage,
        /// The tools that were called, and what came of them.
        #[serde(default)]
        pub calls: Vec<CallLine>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tool_error: Option<ToolError>,
    }

    /// A call and its result.
    pub struct CallLine {
        pub call: ToolCall,
        pub result: ToolResult,
    }

    /// Which model to try. Without any of it the one that answers for the default agent.
    pub struct TestModel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub provider: Option<String>,
        /// `provider/model` or an alias.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        /// The credential to use and no other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile: Option<String>,
    }

    /// What came of one tiny call.
    pub struct ModelTested {
        pub model: ModelRef,
        /// The credential that was used last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile_id: Option<String>,
        #[ts(type = "number")]
        pub elapsed_ms: u64,
        pub usage: Usage,
        /// The provider did not say what was used; the tokens are counted from the characters.
        pub estimated: bool,
        /// What the model said; absent when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failure: Option<CallFailure>,
        /// What was tried before, and failed.
        pub passed_over: Vec<CallFailure>,
    }

    /// Why a call to a model failed.
    pub struct CallFailure {
        /// The class: `auth`, `rateLimit`, `overloaded`, `billing`, `timeout`, `format`, `noSuchModel`, `broken`, …
        pub reason: String,
        pub message: String,
        /// The credential.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile_id: Option<String>,
        /// The HTTP status, when there was an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<u16>,
        /// How long the provider asks to wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "number | null")]
        pub retry_after_ms: Option<u64>,
    }

    /// Which runs to end. Without any of it everything that is under way.
    pub struct StopRuns {
        /// Only those of this conversation: its name, or the text of its key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub session: Option<String>,
        /// Only those of this agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Also those that wait for their turn.
        #[serde(default)]
        pub all: bool,
    }

    /// What was ended.
    pub struct StoppedRuns {
        pub runs: Vec<StoppedRun>,
    }

    pub struct StoppedRun {
        pub run_id: RunId,
        /// The caller's own name for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
        /// The conversation's key.
        pub session: String,
        /// Where it stood.
        pub state: RunState,
        /// What was asked.
        pub text: String,
    }

    /// The logs that a deletion took away, by their names.
    pub struct Deleted {
        pub removed: Vec<String>,
    }

    /// What the process is and does.
    pub struct Status {
        pub version: String,
        pub pid: u32,
        #[ts(type = "number")]
        pub uptime_ms: i64,
        /// Where the page and the port are; absent when only the control socket is open.
        pub address: Option<String>,
        pub ready: bool,
        pub problems: Vec<String>,
        #[ts(type = "unknown")]
        pub channels: Value,
        #[ts(type = "unknown")]
        pub services: Value,
        pub counts: Counts,
    }

    pub struct Counts {
        #[ts(type = "number")]
        pub sessions: u64,
        pub runs: Vec<Count>,
        pub outbox: Vec<Count>,
    }

    pub struct Count {
        pub state: String,
        #[ts(type = "number")]
        pub count: u64,
    }
}

/// A line of the answer to [`Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AskEvent {
    /// It is durable: from here on the run exists, whatever becomes of the connection.
    Accepted {
        run_id: RunId,
        #[ts(type = "number")]
        created_at: i64,
        /// The same key came before; this is the earlier run.
        replayed: bool,
    },
    /// More of the answer, provisional.
    Delta { text: String },
    /// What happens besides the answer: tools, questions, notices.
    Notice { notice: RunEventBody },
    /// The deltas so far do not count any more: another attempt begins.
    Restarted,
    /// The end, well.
    Answer(AskAnswer),
    /// The end, otherwise.
    Error { error: ErrorBody },
}

/// What came of a person's decision about an outgoing part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum SendDecision {
    /// This many parts changed.
    Done { parts: u32 },
    /// It is in a state in which there is nothing to decide.
    Refused { state: String },
}

impl Problem {
    pub fn body(self) -> ErrorBody {
        ErrorBody { code: self.code, message: self.message, details: self.details }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_of_an_answer_says_what_it_is() {
        let run: RunId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let accepted = AskEvent::Accepted { run_id: run, created_at: 7, replayed: false };
        let wire = json!({"event": "accepted", "runId": run.to_string(), "createdAt": 7, "replayed": false});
        assert_eq!(serde_json::to_value(&accepted).unwrap(), wire);
        assert_eq!(serde_json::from_value::<AskEvent>(wire).unwrap(), accepted);
        let failed = AskEvent::Error { error: ErrorBody::new(ErrorCode::Aborted, "ended") };
        let wire = json!({"event": "error", "error": {"code": "ABORTED", "message": "ended"}});
        assert_eq!(serde_json::to_value(&failed).unwrap(), wire);
        assert_eq!(serde_json::from_value::<AskEvent>(wire).unwrap(), failed);
    }

    #[test]
    fn a_run_that_is_not_being_answered_has_a_partial_of_null() {
        let line = RunLine {
            run_id: "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
            state: RunState::Queued,
            text: "hi".to_owned(),
            key: None,
            at: 1,
            error: None,
            attempt: 0,
            partial: None,
        };
        let wire = serde_json::to_value(&line).unwrap();
        assert_eq!(wire["partial"], Value::Null);
        assert!(wire.as_object().unwrap().contains_key("partial"));
        assert!(!wire.as_object().unwrap().contains_key("key"));
    }
}
