//! A run told to clients as it goes: its life, its words, its tools, and how it ended.
//!
//! Words are provisional and may be left out for a slow reader; the end is committed before it is told, and is never left
//! out.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_protocol::{
    ErrorBody, ErrorCode, Logged, Role, RunCommand, RunEvent, RunEventBody, RunId, SessionKey,
};
use tidegate_storage::{RunLookup, RunRow};

use super::history::{self, ChatMessage};
use super::session_row::SessionRow;
use super::{keys, session_row};
use crate::gate::Gate;
use crate::ws::hub::Hub;
use crate::ws::outbox::Weight;
use crate::ws::peer::Audience;
use crate::ws::scope::Need;

/// How often the words so far are told in `chat`, and in `agent`: each carries the whole text.
const CHAT_MS: i64 = 150;
const WORDS_MS: i64 = 40;
/// Characters of a tool's result.
const TOOL_TEXT: usize = 8000;

/// A line of a log, to those who watch the conversation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionMessage<'a> {
    session_key: &'a str,
    agent_id: &'a str,
    run_id: &'a str,
    message_id: &'a str,
    message: &'a ChatMessage,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_seq: Option<i64>,
}

/// A conversation that changed, to those who watch the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionChanged<'a> {
    session_key: &'a str,
    agent_id: &'a str,
    phase: &'a str,
    reason: &'a str,
    run_id: &'a str,
    ts: i64,
    session: &'a SessionRow,
    has_active_run: bool,
    active_run_ids: &'a [String],
}

pub(crate) struct Story {
    pub(crate) run: RunId,
    pub(crate) key: SessionKey,
    /// What clients call the run.
    name: String,
    /// What clients call the conversation.
    session: String,
    agent: String,
    question: String,
    asked_at: i64,
    /// Of the events of this run.
    seq: u64,
    attempt: u32,
    text: String,
    /// When words were last told in `chat` and `agent`, and how many bytes of them.
    chat_told: (i64, usize),
    words_told: (i64, usize),
}

const HEARD: Audience<'static> = Audience::Scope(Need::Read);

impl Story {
    pub(crate) fn new(
        run: RunId,
        key: SessionKey,
        client_key: Option<String>,
        question: String,
        asked_at: i64,
    ) -> Self {
        Self {
            run,
            name: client_key.unwrap_or_else(|| run.to_string()),
            session: keys::write(&key),
            agent: key.scope.agent.to_string(),
            key,
            question,
            asked_at,
            seq: 0,
            attempt: 0,
            text: String::new(),
            chat_told: (0, 0),
            words_told: (0, 0),
        }
    }

    /// Tells it from its beginning to its end.
    pub(crate) async fn tell(mut self, gate: &Gate) {
        let Ok(mut follower) = gate.engine().follow(self.run).await else { return };
        self.begin(gate).await;
        while let Some(event) = follower.next().await {
            self.event(gate, &event);
            if matches!(event.body, RunEventBody::Completed { .. } | RunEventBody::Failed { .. }) {
                self.end(gate, &event.body).await;
                return;
            }
        }
    }

    async fn begin(&mut self, gate: &Gate) {
        let now = gate.shared.now();
        self.agent_event(gate, "lifecycle", &json!({ "phase": "start", "startedAt": now }));
        self.sessions_changed(gate, "start").await;
    }

    fn event(&mut self, gate: &Gate, event: &RunEvent) {
        if event.attempt != self.attempt {
            // The next attempt begins from nothing.
            self.attempt = event.attempt;
            self.text.clear();
            (self.chat_told.1, self.words_told.1) = (0, 0);
        }
        match &event.body {
            RunEventBody::TextDelta { text } => self.delta(gate, text),
            RunEventBody::ToolStarted { call_id, tool, args } => {
                let data = json!({ "phase": "start", "name": tool, "toolCallId": call_id, "args": args });
                self.tool(gate, &data);
            }
            RunEventBody::ToolUpdate { call_id, text } => {
                let data =
                    json!({ "phase": "update", "toolCallId": call_id, "partialResult": content(text) });
                self.tool(gate, &data);
            }
            RunEventBody::ToolEnded { call_id, tool, ok, text, duration_ms, .. } => {
                let data = json!({
                    "phase": "result", "name": tool, "toolCallId": call_id, "result": content(text),
                    "isError": !ok, "durationMs": duration_ms,
                });
                self.tool(gate, &data);
            }
            RunEventBody::CompactionStarted { .. } => {
                self.agent_event(gate, "compaction", &json!({ "phase": "start" }));
            }
            RunEventBody::CompactionEnded { .. } => {
                self.agent_event(gate, "compaction", &json!({ "phase": "end", "willRetry": false }));
            }
            RunEventBody::Started
            | RunEventBody::ThinkingDelta { .. }
            | RunEventBody::ApprovalAsked { .. }
            | RunEventBody::ApprovalSettled { .. }
            | RunEventBody::Steered { .. }
            | RunEventBody::Usage { .. }
            | RunEventBody::ModelSwitched { .. }
            | RunEventBody::OverBudget { .. }
            | RunEventBody::Completed { .. }
            | RunEventBody::Failed { .. } => {}
        }
    }

    fn delta(&mut self, gate: &Gate, piece: &str) {
        self.text.push_str(piece);
        let now = gate.shared.now();
        if now - self.words_told.0 >= WORDS_MS {
            self.tell_words(gate, now);
        }
        if now - self.chat_told.0 >= CHAT_MS {
            self.tell_chat_words(gate, now);
        }
    }

    /// The same in `chat`.
    fn tell_chat_words(&mut self, gate: &Gate, now: i64) {
        if self.chat_told.1 == self.text.len() {
            return;
        }
        let mut payload = self.chat_payload("delta");
        payload["deltaText"] = json!(self.text[self.chat_told.1..]);
        payload["message"] = json!(words(&self.text, now));
        self.chat_told = (now, self.text.len());
        gate.shared.hub.broadcast("chat", &payload, HEARD, Weight::Droppable);
    }

    /// Tells what was said since words were last told.
    fn tell_words(&mut self, gate: &Gate, now: i64) {
        if self.words_told.1 == self.text.len() {
            return;
        }
        let data = json!({ "text": self.text, "delta": self.text[self.words_told.1..] });
        self.words_told = (now, self.text.len());
        self.seq += 1;
        let payload = self.agent_payload(gate, "assistant", &data);
        gate.shared.hub.broadcast("agent", &payload, HEARD, Weight::Droppable);
    }

    fn tool(&mut self, gate: &Gate, data: &Value) {
        // What was said before a tool runs stands there while it does.
        let now = gate.shared.now();
        self.tell_words(gate, now);
        self.tell_chat_words(gate, now);
        self.seq += 1;
        let payload = self.agent_payload(gate, "tool", data);
        gate.shared.hub.broadcast("agent", &payload, Audience::Tools, Weight::Kept);
    }

    fn agent_event(&mut self, gate: &Gate, stream: &str, data: &Value) {
        self.seq += 1;
        let payload = self.agent_payload(gate, stream, data);
        gate.shared.hub.broadcast("agent", &payload, HEARD, Weight::Kept);
    }

    fn agent_payload(&self, gate: &Gate, stream: &str, data: &Value) -> Value {
        json!({
            "runId": self.name, "seq": self.seq, "stream": stream, "ts": gate.shared.now(), "data": data,
            "sessionKey": self.session, "agentId": self.agent,
        })
    }

    fn chat_payload(&self, state: &str) -> Value {
        json!({
            "runId": self.name, "sessionKey": self.session, "agentId": self.agent, "seq": self.seq, "state": state,
        })
    }

    async fn end(&mut self, gate: &Gate, end: &RunEventBody) {
        let now = gate.shared.now();
        self.tell_words(gate, now);
        if matches!(end, RunEventBody::Failed { .. }) {
            // Nothing else says how far it came.
            self.tell_chat_words(gate, now);
        }
        let row = self.row(gate).await;
        let hub = &gate.shared.hub;
        let chat = match end {
            RunEventBody::Failed { error } if error.code == ErrorCode::Aborted => {
                self.agent_event(
                    gate,
                    "lifecycle",
                    &json!({ "phase": "end", "endedAt": now, "aborted": true }),
                );
                let mut chat = self.chat_payload("aborted");
                chat["stopReason"] = json!("rpc");
                chat
            }
            RunEventBody::Failed { error } => {
                let data = json!({ "phase": "error", "startedAt": self.asked_at, "endedAt": now, "error": error.message });
                self.agent_event(gate, "lifecycle", &data);
                let mut chat = self.chat_payload("error");
                chat["errorMessage"] = json!(error.message);
                chat["errorKind"] = json!(error_kind(error));
                chat
            }
            _ => {
                self.agent_event(gate, "lifecycle", &json!({ "phase": "end", "endedAt": now }));
                let text = match end {
                    RunEventBody::Completed { text } => text.as_str(),
                    _ => "",
                };
                let mut chat = self.chat_payload("final");
                chat["stopReason"] =
                    json!(if row.as_ref().is_some_and(is_put) { "injected" } else { "stop" });
                if !text.trim().is_empty() {
                    chat["message"] = json!(words(text.trim(), now));
                }
                chat
            }
        };
        // First what is in the log now: whoever hears the end may read it again.
        let logged = match row {
            Some(row) => self.log_lines(gate, &row).await,
            None => false,
        };
        if !logged {
            self.unanswered(hub);
        }
        hub.broadcast("chat", &chat, HEARD, Weight::Kept);
        self.sessions_changed(gate, if chat["state"] == "error" { "error" } else { "end" }).await;
    }

    async fn row(&self, gate: &Gate) -> Option<RunRow> {
        let engine = gate.engine();
        engine.library().run(engine.tenant(), &RunLookup::Id(self.run)).await.ok().flatten()
    }

    /// Tells the lines that the run wrote to those who watch the conversation. `false` when it wrote none.
    ///
    /// What was asked is told here and not before: clients know messages by their place in the log, and would show it twice.
    async fn log_lines(&self, gate: &Gate, row: &RunRow) -> bool {
        let hub = &gate.shared.hub;
        let (Some(session), Some((first, last))) = (row.session, row.entries) else { return false };
        if !hub.anybody_hears(Audience::Messages(&self.session)) {
            return true;
        }
        let count = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
        let engine = gate.engine();
        let Ok(entries) = engine.library().entries(engine.tenant(), session, first - 1, count).await else {
            return true;
        };
        for entry in entries.iter().filter(|entry| entry.run_id == self.run) {
            if let Some(message) = history::message(entry) {
                let message = history::with_run_name(message, &self.name);
                self.session_message(hub, &message, &entry.id.to_string(), Some(entry.seq));
            }
        }
        true
    }

    /// Tells what was asked in a run that left nothing in the log: whoever sent it waits for it to be taken.
    fn unanswered(&self, hub: &Hub) {
        if self.question.is_empty() {
            return;
        }
        let user = ChatMessage::words(Role::User, &self.question, self.asked_at);
        let user = history::with_run_name(user, &self.name);
        self.session_message(hub, &user, &format!("{}:user", self.name), None);
    }

    fn session_message(&self, hub: &Hub, message: &ChatMessage, id: &str, seq: Option<i64>) {
        let payload = SessionMessage {
            session_key: &self.session,
            agent_id: &self.agent,
            run_id: &self.name,
            message_id: id,
            message,
            message_seq: seq,
        };
        hub.tell("session.message", &payload, Audience::Messages(&self.session));
    }

    async fn sessions_changed(&self, gate: &Gate, phase: &str) {
        let hub = &gate.shared.hub;
        if !hub.anybody_hears(Audience::SessionList) {
            return;
        }
        let running = phase == "start";
        let mut session = session_row::row_of(gate, &self.key).await;
        session.has_active_run = running;
        session.active_run_ids = if running { vec![self.name.clone()] } else { Vec::new() };
        let payload = SessionChanged {
            session_key: &self.session,
            agent_id: &self.agent,
            phase,
            reason: phase,
            run_id: &self.name,
            ts: gate.shared.now(),
            has_active_run: running,
            active_run_ids: &session.active_run_ids,
            session: &session,
        };
        hub.tell("sessions.changed", &payload, Audience::SessionList);
    }
}

/// Whether somebody put the answer there.
fn is_put(row: &RunRow) -> bool {
    matches!(row.spec.command, Some(RunCommand::Say { logged: Some(Logged::Answer), .. }))
}

/// The words of an agent as a message.
fn words(text: &str, at: i64) -> ChatMessage {
    ChatMessage::words(Role::Assistant, text, at)
}

/// What a tool said, as much of it as is shown.
fn content(text: &str) -> Value {
    let mut shown: String = text.chars().take(TOOL_TEXT).collect();
    if shown.len() < text.len() {
        shown.push_str("\n…(truncated)…");
    }
    json!({ "content": [{ "type": "text", "text": shown }] })
}

fn error_kind(error: &ErrorBody) -> &'static str {
    match error.code {
        ErrorCode::DeadlineExceeded => "timeout",
        ErrorCode::ContextOverflow => "context_length",
        _ => "unknown",
    }
}
