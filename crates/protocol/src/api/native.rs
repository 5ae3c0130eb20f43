//! What is said on our own WebSocket (`/api/v1/socket`): the frames, the parameters of its methods, what they answer where
//! the HTTP interface has no shape for it, and the payloads of its events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use super::{ApprovalDecision, ApprovalView, Me, RunChanged};
use crate::error::ErrorCode;
use crate::event::RunEventBody;
use crate::id::{ApprovalId, OutboxId, RunId, SessionId};
use crate::message::Usage;
use crate::run::{JoinMode, RunState};
use crate::tool::Risk;

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "req")]
pub struct RequestFrame {
    /// The client's own name for the request; the answer has it.
    pub id: String,
    pub method: String,
    pub params: Value,
}

/// What the gateway sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum ServerFrame {
    #[serde(rename = "res")]
    Response {
        id: String,
        ok: bool,
        #[serde(default)]
        payload: Value,
        #[serde(default)]
        error: Option<CallProblem>,
    },
    #[serde(rename = "event")]
    Event {
        event: String,
        #[serde(default)]
        payload: Value,
        /// Of a broadcast: counts by one in a process.
        #[serde(default)]
        seq: Option<u64>,
        /// The subscription it belongs to.
        #[serde(default)]
        sub: Option<String>,
        /// Counts by one in a subscription; a jump means that something was left out.
        #[serde(default)]
        n: Option<u64>,
    },
}

wire! {
    /// Why a request was refused.
    pub struct CallProblem {
        pub code: ErrorCode,
        pub message: String,
        /// How to mend it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub hint: Option<String>,
        /// The same request may succeed later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub retryable: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "number | null")]
        pub retry_after_ms: Option<u64>,
    }

    /// The first frame of a connection.
    pub struct Hello {
        pub protocol: u32,
        pub server: ServerInfo,
        /// The newest broadcast when this connection began to hear them.
        #[ts(type = "number")]
        pub seq: u64,
        pub me: Me,
        pub policy: SocketPolicy,
        /// What may be called, and what may be heard.
        pub methods: Vec<String>,
        pub events: Vec<String>,
    }

    pub struct ServerInfo {
        pub name: String,
        pub version: String,
        /// Of the process: numbers of broadcasts mean nothing in another.
        pub boot_id: String,
        pub conn_id: String,
    }

    pub struct SocketPolicy {
        /// A tick comes so often; who hears nothing for twice as long connects again.
        #[ts(type = "number")]
        pub tick_ms: u64,
        #[ts(type = "number")]
        pub max_frame_bytes: u64,
        #[ts(type = "number")]
        pub max_queued_bytes: u64,
        /// Requests of one connection under way at once.
        pub max_requests: u32,
    }

    pub struct Tick {
        #[ts(type = "number")]
        pub at: i64,
    }

    /// The gateway ends; the connection is closed with 1012 in a moment.
    pub struct GoingDown {
        pub reason: String,
    }

    /// More happened than could be told: what is known must be read again.
    pub struct MissedEvents {}

    /// How the process stands.
    pub struct HealthView {
        #[ts(type = "number")]
        pub at: i64,
        pub ready: bool,
        pub problems: Vec<String>,
        #[ts(type = "unknown")]
        pub channels: Value,
        #[ts(type = "unknown")]
        pub services: Value,
    }

    /// A conversation stands elsewhere in the list, or is called otherwise.
    pub struct SessionsChanged {
        /// As the list names it.
        pub session: String,
        pub reason: SessionChange,
    }

    /// A run of any conversation was accepted or changed its state.
    pub struct RunNews {
        /// As the list names it.
        pub session: String,
        pub run: RunChanged,
    }

    /// A question to a person was put, or is over.
    pub struct ApprovalNews {
        pub approval: ApprovalView,
    }

    /// What a tool of a run under way does. Those of a run that began before are told from its beginning.
    pub struct ToolNews {
        pub run_id: RunId,
        pub attempt: u32,
        pub call_id: String,
        /// The tool; absent in an update.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        pub phase: ToolPhase,
        /// The arguments in one line, cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub gist: Option<String>,
        /// What came of it so far, cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        /// Whether it went well, at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ok: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "number | null")]
        pub duration_ms: Option<u64>,
    }

    /// What happens in a run besides words and tools: it waits for somebody, sums up, goes on with another model.
    pub struct Note {
        pub run_id: RunId,
        pub attempt: u32,
        pub note: RunEventBody,
    }

    /// Parameters of a method that takes none.
    pub struct Nothing {}

    /// It is done.
    pub struct Ack {}

    /// Which conversations. Without any of it the newest.
    pub struct ListSessions {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 500))]
        pub limit: Option<u32>,
        /// Only those last used before this time, in milliseconds since the epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "number | null")]
        pub before: Option<i64>,
        /// Only those with this text in their title or name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub query: Option<String>,
    }

    /// A conversation: the name the list gives it, or the text of its key.
    pub struct SessionRef {
        #[schemars(length(min = 1))]
        pub session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
    }

    pub struct RenameSession {
        #[schemars(length(min = 1))]
        pub session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Absent: it is called by how it began again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
    }

    /// What came of summing a conversation up.
    pub struct Compacted {
        pub compacted: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
    }

    pub struct SendMessage {
        #[schemars(length(min = 1))]
        pub session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        pub text: String,
        /// The caller's own key: the same key again answers the same run.
        pub key: String,
        /// Let a run that is under way read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub join: Option<JoinMode>,
    }

    pub struct MessageSent {
        pub run_id: RunId,
        /// The same key came before; this is the earlier run.
        pub replayed: bool,
    }

    pub struct RunRef {
        pub run_id: RunId,
    }

    pub struct ListRuns {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub session: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub state: Option<RunState>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 500))]
        pub limit: Option<u32>,
    }

    pub struct ListApprovals {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 200))]
        pub limit: Option<u32>,
    }

    pub struct ApprovalRef {
        pub id: ApprovalId,
    }

    pub struct DecideApproval {
        pub id: ApprovalId,
        pub decision: ApprovalDecision,
        /// With `allow-once`: the same as `allow-always`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub always: bool,
        /// Told to the model, and kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// Of a rule that is saved for a command: how many words after the program's name must be the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub prefix: Option<u32>,
    }

    pub struct ListOutbox {
        /// Only parts in this state, such as `dead` or `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub state: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 500))]
        pub limit: Option<u32>,
    }

    /// Parts of answers on their way to networks, the newest first.
    pub struct OutboxList {
        pub parts: Vec<OutboxPart>,
    }

    pub struct OutboxPart {
        pub id: OutboxId,
        pub run_id: RunId,
        pub channel: String,
        pub account: String,
        /// Where it goes.
        pub lane: String,
        pub part: u32,
        pub state: String,
        pub attempt: u32,
        /// The finished part, as the network takes it.
        pub body: String,
        /// Why it did not go out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        #[ts(type = "number")]
        pub created_at: i64,
        #[ts(type = "number")]
        pub updated_at: i64,
    }

    pub struct DecideOutbox {
        pub id: OutboxId,
        pub decision: OutboxDecision,
    }

    /// An agent; the usual one when absent.
    pub struct AgentRef {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
    }

    /// Models that are known.
    pub struct ModelList {
        /// Those that answer for the agent, the first one first.
        pub chain: Vec<String>,
        pub models: Vec<ModelItem>,
    }

    pub struct ModelItem {
        /// `provider/model`: what a setting takes.
        pub id: String,
        pub name: String,
        pub provider: String,
        #[ts(type = "number")]
        pub context_window: u64,
        pub reasoning: bool,
        pub images: bool,
    }

    /// The tools that are there for an agent.
    pub struct ToolList {
        pub tools: Vec<ToolItem>,
    }

    pub struct ToolItem {
        pub name: String,
        pub description: String,
        pub risk: Risk,
    }

    pub struct UsageOf {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 366))]
        pub days: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
    }

    /// What model calls used, day by day.
    pub struct UsageView {
        pub days: Vec<UsageDay>,
        pub total: Usage,
    }

    pub struct UsageDay {
        pub day: String,
        #[ts(type = "number")]
        pub calls: u64,
        pub usage: Usage,
    }

    pub struct ListAudit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1000))]
        pub limit: Option<u32>,
    }

    /// The last line of a log that a reader has.
    pub struct Cursor {
        pub session_id: SessionId,
        #[ts(type = "number")]
        pub seq: i64,
    }

    pub struct SubscribeSession {
        #[schemars(length(min = 1))]
        pub session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Only lines after it are told, if it is in the log of today.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cursor: Option<Cursor>,
    }

    pub struct Subscribed {
        pub sub: String,
    }

    pub struct Unsubscribe {
        pub sub: String,
    }

    pub struct ResumeEvents {
        /// `server.bootId` of the hello under which the last broadcast was heard.
        pub boot_id: String,
        /// The number of that broadcast.
        #[ts(type = "number")]
        pub after_seq: u64,
    }

    pub struct Resumed {
        /// What was missed was sent again; else what is known must be read again.
        pub resumed: bool,
        /// The newest broadcast.
        #[ts(type = "number")]
        pub seq: u64,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum SessionChange {
    /// Something was asked in it.
    Asked,
    /// A run in it ended.
    Ended,
    Renamed,
    Deleted,
    Forked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum ToolPhase {
    Start,
    Update,
    Result,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum OutboxDecision {
    /// Send it (again).
    Retry,
    /// Give it up.
    Drop,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_read_as_they_are_written() {
        let request = RequestFrame { id: "1".into(), method: "me.get".into(), params: json!({}) };
        let wire = json!({"type": "req", "id": "1", "method": "me.get", "params": {}});
        assert_eq!(serde_json::to_value(&request).unwrap(), wire);
        let event: ServerFrame =
            serde_json::from_value(json!({"type": "event", "event": "tick", "payload": {"at": 1}})).unwrap();
        let ServerFrame::Event { seq, sub, n, .. } = event else { panic!("an event") };
        assert_eq!((seq, sub, n), (None, None, None));
        let no =
            json!({"type": "res", "id": "1", "ok": false, "error": {"code": "NOT_FOUND", "message": "m"}});
        let ServerFrame::Response { ok, error, .. } = serde_json::from_value(no).unwrap() else {
            panic!("a response")
        };
        assert!(!ok && error.is_some_and(|error| error.code == ErrorCode::NotFound && !error.retryable));
    }
}
