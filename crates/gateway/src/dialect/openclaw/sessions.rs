//! `sessions.*`: the list of conversations, what is chosen for one, and watching them.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate_engine::Wish;
use tidegate_protocol::{AgentId, EntryId, ErrorBody, Place, Role, SessionKey};
use tidegate_storage::SessionFilter;

use super::agent::{Asking, submit};
use super::answers::EmptyList;
use super::history::{self, ChatMessage};
use super::keys;
use super::session_row::{
    SessionDefaults, SessionRow, active_runs, defaults, last_message, of_stored, row_of, shortened,
};
use crate::gate::Gate;
use crate::methods::{Caller, Nothing};
use crate::openai::is_one_off;
use crate::token::random_text;
use crate::ws::frame::WireError;
use crate::ws::hub::Cursor;

/// Conversations that are looked at for one answer.
const LISTED: u32 = 500;
/// Conversations that are previewed in one answer.
const PREVIEWED: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsList {
    #[schemars(range(min = 1))]
    limit: Option<u32>,
    offset: Option<u32>,
    #[schemars(range(min = 1))]
    active_minutes: Option<i64>,
    include_global: Option<bool>,
    include_unknown: Option<bool>,
    configured_agents_only: Option<bool>,
    include_derived_titles: Option<bool>,
    include_last_message: Option<bool>,
    label: Option<String>,
    spawned_by: Option<String>,
    agent_id: Option<String>,
    search: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneSession {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsDescribe {
    #[schemars(length(min = 1))]
    key: String,
    include_derived_titles: Option<bool>,
    include_last_message: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsPreview {
    #[schemars(length(min = 1))]
    keys: Vec<String>,
    #[schemars(range(min = 1))]
    limit: Option<u32>,
    #[schemars(range(min = 20))]
    max_chars: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsResolve {
    key: Option<String>,
    session_id: Option<String>,
    label: Option<String>,
    agent_id: Option<String>,
    spawned_by: Option<String>,
    include_global: Option<bool>,
    include_unknown: Option<bool>,
    allow_missing: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsReset {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "reset_reason")]
    reason: Option<String>,
}

fn reset_reason(_: &mut SchemaGenerator) -> Schema {
    let choices = json!({ "anyOf": [{ "const": "new" }, { "const": "reset" }] });
    Schema::try_from(choices).unwrap_or_default()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsDelete {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
    delete_transcript: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsCompact {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct MessagesSubscribe {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
    include_approvals: Option<bool>,
    /// The last message that the client has: those after it are told first.
    after_seq: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRows {
    ts: i64,
    path: &'static str,
    count: usize,
    total_count: usize,
    limit_applied: usize,
    has_more: bool,
    next_offset: Option<usize>,
    owners: EmptyList,
    defaults: SessionDefaults,
    sessions: Vec<SessionRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionDescribed {
    session: SessionRow,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionPreviews {
    ts: i64,
    previews: Vec<SessionPreview>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionPreview {
    key: String,
    /// `ok`, `empty` or `missing`.
    status: &'static str,
    items: Vec<PreviewItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PreviewItem {
    /// `user`, `assistant` or `tool`.
    role: &'static str,
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionResolved {
    ok: bool,
    key: String,
    agent_id: AgentId,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionReset {
    ok: bool,
    key: String,
    entry: SessionRow,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionCompacted {
    ok: bool,
    key: String,
    compacted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionDeleted {
    ok: bool,
    key: String,
    deleted: bool,
    archived: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionsWatched {
    subscribed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<Cursor>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessagesWatched {
    subscribed: bool,
    key: String,
    approval_replay: ApprovalReplay,
    /// Whether there are more than were told.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// The last line of the log.
    head_seq: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalReplay {
    pending: EmptyList,
    truncated: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessagesUnwatched {
    subscribed: bool,
    key: String,
}

/// A message that a client missed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MissedMessage<'a> {
    session_key: &'a str,
    agent_id: &'a AgentId,
    message_id: Option<EntryId>,
    message_seq: Option<i64>,
    message: &'a ChatMessage,
    replayed: bool,
}

pub(super) fn key_of(gate: &Gate, agent: Option<&str>, text: &str) -> Result<SessionKey, WireError> {
    Ok(keys::read(gate.engine().settings(), gate.engine().tenant(), agent, text)?)
}

pub(crate) async fn list(caller: Caller, params: SessionsList) -> Result<SessionRows, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    let agent = match params.agent_id.as_deref() {
        Some(agent) => Some(engine.settings().scope(Some(agent))?.agent),
        None => None,
    };
    let filter = SessionFilter { agent, limit: LISTED, ..SessionFilter::default() };
    let mut rows = engine.library().sessions(engine.tenant(), filter).await?;
    let now = gate.shared.now();
    let search = params.search.as_deref().map(str::to_lowercase);
    rows.retain(|row| {
        let recent = params
            .active_minutes
            .is_none_or(|minutes| now - row.updated_at <= minutes.saturating_mul(60_000));
        let labelled = params.label.as_deref().is_none_or(|label| row.title.as_deref() == Some(label));
        let found = search.as_deref().is_none_or(|search| {
            keys::write(&row.key).to_lowercase().contains(search)
                || row.title.as_deref().is_some_and(|title| title.to_lowercase().contains(search))
        });
        // Nobody here is known to have been spawned by a key.
        recent && labelled && found && params.spawned_by.is_none() && !is_one_off(&row.key)
    });
    let total = rows.len();
    let offset = params.offset.map_or(0, |offset| offset as usize).min(total);
    let limit = params.limit.map_or(total, |limit| limit as usize);
    let active = active_runs(gate).await?;
    let mut sessions = Vec::new();
    for row in rows.iter().skip(offset).take(limit) {
        let mut entry = of_stored(row, active.get(&row.key).map_or(&[][..], Vec::as_slice));
        if params.include_last_message == Some(true) {
            entry.last_message_preview = last_message(gate, row).await?;
        }
        sessions.push(entry);
    }
    let more = offset + sessions.len() < total;
    Ok(SessionRows {
        ts: now,
        path: "(multiple)",
        count: sessions.len(),
        total_count: total,
        limit_applied: limit,
        has_more: more,
        next_offset: more.then_some(offset + sessions.len()),
        owners: EmptyList,
        defaults: defaults(gate),
        sessions,
    })
}

pub(crate) async fn describe(
    caller: Caller,
    params: SessionsDescribe,
) -> Result<SessionDescribed, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, None, &params.key)?;
    let mut session = row_of(gate, &key).await;
    if params.include_last_message == Some(true)
        && let Some(row) = gate.engine().library().session(&key).await?
    {
        session.last_message_preview = last_message(gate, &row).await?;
    }
    Ok(SessionDescribed { session })
}

pub(crate) async fn preview(caller: Caller, params: SessionsPreview) -> Result<SessionPreviews, WireError> {
    let gate = &caller.gate;
    let (limit, most) = (params.limit.unwrap_or(12).min(100), params.max_chars.unwrap_or(240));
    let mut previews = Vec::new();
    for name in params.keys.iter().take(PREVIEWED) {
        let Ok(key) = key_of(gate, None, name) else {
            previews.push(SessionPreview { key: name.clone(), status: "missing", items: Vec::new() });
            continue;
        };
        let tail = history::tail(gate, &key, limit, 0).await?;
        let items: Vec<PreviewItem> =
            tail.messages.iter().filter_map(|message| preview_item(message, most)).collect();
        let status = match (&tail.row, items.is_empty()) {
            (None, _) => "missing",
            (Some(_), true) => "empty",
            (Some(_), false) => "ok",
        };
        previews.push(SessionPreview { key: name.clone(), status, items });
    }
    Ok(SessionPreviews { ts: gate.shared.now(), previews })
}

fn preview_item(message: &ChatMessage, most: usize) -> Option<PreviewItem> {
    let texts: Vec<&str> = message.texts().collect();
    let text = shortened(&texts.join(" "), most);
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::ToolResult => "tool",
    };
    (!text.is_empty()).then_some(PreviewItem { role, text })
}

pub(crate) async fn resolve(caller: Caller, params: SessionsResolve) -> Result<SessionResolved, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    let agent = params.agent_id.as_deref();
    let missing = |what: &str| WireError::invalid(format!("No session found: {what}"));
    let found = match (&params.key, &params.session_id, &params.label) {
        (Some(name), None, None) => {
            let key = key_of(gate, agent, name)?;
            let exists =
                params.allow_missing == Some(true) || engine.library().session(&key).await?.is_some();
            exists.then_some(key).ok_or_else(|| missing(name))?
        }
        (None, Some(id), None) => {
            let row = engine.library().session_by_name(engine.tenant(), id).await?;
            row.map(|row| row.key).ok_or_else(|| missing(id))?
        }
        (None, None, Some(label)) => {
            let filter = SessionFilter { limit: LISTED, ..SessionFilter::default() };
            let mut rows = engine.library().sessions(engine.tenant(), filter).await?;
            rows.retain(|row| row.title.as_deref() == Some(label.as_str()));
            match rows.as_slice() {
                [] => return Err(missing(label)),
                [row] => row.key.clone(),
                _ => return Err(WireError::invalid(format!("Multiple sessions found with label: {label}"))),
            }
        }
        _ => return Err(WireError::invalid("Provide exactly one of key, sessionId or label")),
    };
    Ok(SessionResolved { ok: true, key: keys::write(&found), agent_id: found.scope.agent })
}

/// Lets a command of the conversation do it, in its place among the messages.
async fn command(gate: &Gate, key: &SessionKey, text: &str) -> Result<Result<(), ErrorBody>, WireError> {
    let name = random_text::<16>().map_err(|error| WireError::unavailable(error.to_string()))?;
    let asking = Asking {
        key: key.clone(),
        text: text.to_owned(),
        images: Vec::new(),
        name: &name,
        space: "session",
        wish: Wish::default(),
        commands: true,
    };
    let submitted = submit(gate, asking).await?;
    Ok(submitted.follower.end().await.map(|_| ()))
}

pub(crate) async fn reset(caller: Caller, params: SessionsReset) -> Result<SessionReset, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    command(gate, &key, "/new").await?.map_err(|error| WireError::from(&error))?;
    Ok(SessionReset { ok: true, key: keys::write(&key), entry: row_of(gate, &key).await })
}

pub(crate) async fn compact(caller: Caller, params: SessionsCompact) -> Result<SessionCompacted, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    let reason = if gate.engine().library().session(&key).await?.is_none() {
        Some("no sessionId".to_owned())
    } else {
        // A log is never cut: the older part is summed up and stays readable.
        command(gate, &key, "/compact").await?.err().map(|error| error.message)
    };
    Ok(SessionCompacted { ok: true, key: name, compacted: reason.is_none(), reason })
}

pub(crate) async fn delete(caller: Caller, params: SessionsDelete) -> Result<SessionDeleted, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    if key.place == Place::Main {
        return Err(WireError::invalid(format!("Cannot delete the main session ({name}).")));
    }
    let removed = gate.engine().delete_session(&gate.principal(), &key).await?;
    Ok(SessionDeleted { ok: true, key: name, deleted: !removed.is_empty(), archived: EmptyList })
}

pub(crate) async fn subscribe(caller: Caller, _: Nothing) -> Result<SessionsWatched, WireError> {
    caller.peer.watch_sessions(true);
    Ok(SessionsWatched { subscribed: true, cursor: Some(caller.gate.shared.hub.cursor()) })
}

pub(crate) async fn unsubscribe(caller: Caller, _: Nothing) -> Result<SessionsWatched, WireError> {
    caller.peer.watch_sessions(false);
    Ok(SessionsWatched { subscribed: false, cursor: None })
}

pub(crate) async fn watch(caller: Caller, params: MessagesSubscribe) -> Result<MessagesWatched, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    if !caller.peer.watch_messages(&name) {
        return Err(WireError::invalid("too many conversations are watched; unsubscribe from one first"));
    }
    let row = gate.engine().library().session(&key).await?;
    let mut has_more = None;
    if let (Some(after), Some(row)) = (params.after_seq, &row) {
        // Watched first and read afterwards: a message may be told twice, by its place, and none is left out.
        let (messages, more) = history::after(gate, row, after).await?;
        for message in &messages {
            let payload = MissedMessage {
                session_key: &name,
                agent_id: &key.scope.agent,
                message_id: message.id,
                message_seq: message.seq(),
                message,
                replayed: true,
            };
            caller.peer.tell("session.message", &payload);
        }
        has_more = Some(more);
    }
    Ok(MessagesWatched {
        subscribed: true,
        key: name,
        approval_replay: ApprovalReplay { pending: EmptyList, truncated: false },
        has_more,
        head_seq: row.map_or(0, |row| row.head_seq),
    })
}

pub(crate) async fn unwatch(caller: Caller, params: OneSession) -> Result<MessagesUnwatched, WireError> {
    let key = key_of(&caller.gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    caller.peer.unwatch_messages(&name);
    Ok(MessagesUnwatched { subscribed: false, key: name })
}
