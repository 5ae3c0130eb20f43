//! `chat.*`: a conversation as a person sees it on a screen.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_engine::{StopFilter, Wish};
use tidegate_protocol::{SessionId, SessionKey};
use tidegate_storage::AbortOutcome;

use super::agent::{Asking, find_run, submit, thinking};
use super::answers::EmptyList;
use super::history::{self, ChatMessage};
use super::quiet::ChatMetadata;
use super::session_row::{self, SessionDefaults, SessionRow};
use super::{attachments, keys};
use crate::gate::Gate;
use crate::methods::Caller;
use crate::ws::frame::WireError;
use crate::ws::hub::Cursor;

/// Messages in an answer when nobody says how many.
const MESSAGES: u32 = 200;
/// Words that end what is under way in place of being said.
const STOP_WORDS: [&str; 7] = ["/stop", "stop", "esc", "abort", "wait", "exit", "interrupt"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ChatSend {
    #[schemars(length(min = 1))]
    session_key: String,
    message: String,
    #[schemars(length(min = 1))]
    idempotency_key: String,
    agent_id: Option<String>,
    session_id: Option<String>,
    thinking: Option<String>,
    deliver: Option<bool>,
    attachments: Option<Vec<Value>>,
    timeout_ms: Option<u64>,
    suppress_command_interpretation: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ChatHistory {
    #[schemars(length(min = 1))]
    session_key: String,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    agent_id: Option<String>,
    offset: Option<u32>,
    max_chars: Option<u64>,
    max_bytes: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatAbort {
    #[schemars(length(min = 1))]
    session_key: String,
    run_id: Option<String>,
    agent_id: Option<String>,
}

/// What became of a message: it began a run, or it ended what was under way.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ChatSent {
    Run(ChatRun),
    Stopped(ChatAborted),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatRun {
    run_id: String,
    /// `started`; for one that was sent before `in_flight`, `ok` or `error`.
    status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatAborted {
    ok: bool,
    aborted: bool,
    run_ids: Vec<String>,
}

/// The newest messages of a conversation, and what holds in it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatPage {
    session_key: String,
    messages: Vec<ChatMessage>,
    pending_inputs: PendingInputs,
    /// Whether there are older ones.
    has_more: bool,
    total_messages: i64,
    defaults: SessionDefaults,
    session_info: SessionRow,
    thinking_level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PendingInputs {
    items: EmptyList,
    total: u32,
}

/// The same with what a page needs to begin.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatStartup {
    #[serde(flatten)]
    page: ChatPage,
    metadata: ChatMetadata,
    cursor: Cursor,
}

pub(super) fn key_of(gate: &Gate, agent: Option<&str>, text: &str) -> Result<SessionKey, WireError> {
    Ok(keys::read(gate.engine().settings(), gate.engine().tenant(), agent, text)?)
}

pub(crate) async fn send(caller: Caller, params: ChatSend) -> Result<ChatSent, WireError> {
    let gate = &caller.gate;
    let images = attachments::images(gate, params.attachments.as_ref()).await?;
    let text = params.message.trim();
    if text.is_empty() && images.is_empty() {
        return Err(WireError::invalid("message or attachment required"));
    }
    let key = key_of(gate, params.agent_id.as_deref(), &params.session_key)?;
    if STOP_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Ok(ChatSent::Stopped(stop(gate, key).await?));
    }
    let wish = Wish {
        timeout: params.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis),
        thinking: thinking(params.thinking.as_deref())?,
        ..Wish::default()
    };
    let name = params.idempotency_key.as_str();
    let commands = params.suppress_command_interpretation != Some(true);
    let asking = Asking { key, text: text.to_owned(), images, name, space: "chat", wish, commands };
    let submitted = submit(gate, asking).await?;
    if !submitted.replayed {
        return Ok(ChatSent::Run(ChatRun { run_id: name.to_owned(), status: "started" }));
    }
    let row = find_run(gate, name).await?;
    let status = match row {
        Some(row) if !row.state.is_terminal() => "in_flight",
        Some(row) if row.error.is_some() => "error",
        _ => "ok",
    };
    Ok(ChatSent::Run(ChatRun { run_id: name.to_owned(), status }))
}

/// Ends what is under way in a conversation and what waits there.
async fn stop(gate: &Gate, key: SessionKey) -> Result<ChatAborted, WireError> {
    let filter = StopFilter { session: Some(key), agent: None, waiting: true };
    let ended = gate.engine().stop_all(&gate.principal(), &filter).await?;
    let runs: Vec<String> =
        ended.iter().map(|row| row.client_key.clone().unwrap_or_else(|| row.id.to_string())).collect();
    Ok(ChatAborted { ok: true, aborted: !runs.is_empty(), run_ids: runs })
}

pub(crate) async fn abort(caller: Caller, params: ChatAbort) -> Result<ChatAborted, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.session_key)?;
    let Some(name) = params.run_id.as_deref().map(str::trim).filter(|name| !name.is_empty()) else {
        return stop(gate, key).await;
    };
    let nothing = || ChatAborted { ok: true, aborted: false, run_ids: Vec::new() };
    let Some(row) = find_run(gate, name).await? else { return Ok(nothing()) };
    if row.key != key {
        return Err(WireError::invalid("runId does not match sessionKey"));
    }
    match gate.engine().abort(&gate.principal(), row.id).await? {
        AbortOutcome::Aborted => Ok(ChatAborted { ok: true, aborted: true, run_ids: vec![name.to_owned()] }),
        AbortOutcome::AlreadyEnded(_) | AbortOutcome::Begun | AbortOutcome::NotFound => Ok(nothing()),
    }
}

pub(crate) async fn history(caller: Caller, params: ChatHistory) -> Result<ChatPage, WireError> {
    read(&caller.gate, &params).await
}

pub(crate) async fn startup(caller: Caller, params: ChatHistory) -> Result<ChatStartup, WireError> {
    let gate = &caller.gate;
    let page = read(gate, &params).await?;
    Ok(ChatStartup { page, metadata: ChatMetadata::default(), cursor: gate.shared.hub.cursor() })
}

async fn read(gate: &Gate, params: &ChatHistory) -> Result<ChatPage, WireError> {
    let key = key_of(gate, params.agent_id.as_deref(), &params.session_key)?;
    let limit = params.limit.unwrap_or(MESSAGES);
    let tail = history::tail(gate, &key, limit, params.offset.unwrap_or_default()).await?;
    let settings = gate.engine().session_settings(&key).await?;
    let row = tail.row.as_ref();
    Ok(ChatPage {
        session_key: keys::write(&key),
        pending_inputs: PendingInputs { items: EmptyList, total: 0 },
        has_more: tail.has_more,
        total_messages: row.map_or(0, |row| row.head_seq),
        defaults: session_row::defaults(gate),
        session_info: session_row::row_of(gate, &key).await,
        thinking_level: settings.thinking.unwrap_or_default().as_str(),
        session_id: row.map(|row| row.id),
        delta_cursor: row.map(|row| row.head_seq.to_string()),
        messages: tail.messages,
    })
}
