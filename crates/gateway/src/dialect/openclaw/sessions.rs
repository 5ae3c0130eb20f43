//! `sessions.*`: the list of conversations, what is chosen for one, and watching them.

use std::collections::HashMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_engine::Wish;
use tidegate_protocol::{ErrorBody, Message, Place, RunState, SessionKey};
use tidegate_storage::{RunFilter, SessionFilter, SessionRow};

use super::agent::{Asking, submit};
use super::{history, keys};
use crate::gate::Gate;
use crate::methods::{Caller, Nothing};
use crate::openai::is_one_off;
use crate::token::random_text;
use crate::ws::frame::WireError;

/// Conversations that are looked at for one answer.
const LISTED: u32 = 500;
/// Runs looked at to know what is under way.
const ACTIVE: u32 = 500;
/// Characters of a preview.
const PREVIEW: usize = 120;
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

pub(super) fn key_of(gate: &Gate, agent: Option<&str>, text: &str) -> Result<SessionKey, WireError> {
    Ok(keys::read(gate.engine().settings(), gate.engine().tenant(), agent, text)?)
}

/// What holds where nothing was chosen.
pub(crate) fn defaults(gate: &Gate) -> Value {
    let settings = gate.engine().settings();
    let model = settings
        .scope(None)
        .and_then(|scope| settings.run_spec(&scope, &Wish::default()))
        .ok()
        .and_then(|spec| spec.models.into_iter().next());
    match model {
        Some(model) => {
            let window = settings.catalogue().model(&model).map(|info| info.context_window);
            json!({ "modelProvider": model.provider, "model": model.model, "contextTokens": window })
        }
        None => json!({ "modelProvider": null, "model": null, "contextTokens": null }),
    }
}

/// Runs under way, by conversation: what their callers call them.
async fn active_runs(gate: &Gate) -> Result<HashMap<SessionKey, Vec<String>>, WireError> {
    let engine = gate.engine();
    let mut active: HashMap<SessionKey, Vec<String>> = HashMap::new();
    for state in [RunState::Running, RunState::Queued] {
        let filter = RunFilter { state: Some(state), limit: ACTIVE, ..RunFilter::default() };
        for row in engine.library().runs(engine.tenant(), filter).await? {
            let name = row.client_key.unwrap_or_else(|| row.id.to_string());
            active.entry(row.key).or_default().push(name);
        }
    }
    Ok(active)
}

/// A conversation as clients list it.
fn entry(row: &SessionRow, active: &[String]) -> Value {
    let usage = row.usage;
    let mut entry = json!({
        "key": keys::write(&row.key), "kind": keys::kind(&row.key), "sessionId": row.id,
        "agentId": row.key.scope.agent, "updatedAt": row.updated_at, "lastInteractionAt": row.updated_at,
        "createdAt": row.created_at, "isMain": row.key.place == Place::Main, "chatType": keys::kind(&row.key),
        "inputTokens": usage.input + usage.cache_read + usage.cache_write, "outputTokens": usage.output,
        "totalTokens": row.context_tokens, "totalTokensFresh": true, "compactionCount": row.compactions,
        "hasActiveRun": !active.is_empty(), "activeRunIds": active,
        "status": if active.is_empty() { "done" } else { "running" },
    });
    let settings = &row.settings;
    let optional = [
        ("label", row.title.as_deref().map(Value::from)),
        ("displayName", row.title.as_deref().map(Value::from)),
        ("derivedTitle", row.title.as_deref().map(Value::from)),
        ("channel", keys::channel(&row.key).map(|channel| json!(channel))),
        ("modelProvider", row.provider.as_deref().map(Value::from)),
        ("model", settings.model.as_deref().map(Value::from)),
        ("thinkingLevel", settings.thinking.map(|level| level.as_str().into())),
        ("verboseLevel", settings.verbose.map(|level| level.as_str().into())),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            entry[name] = value;
        }
    }
    entry
}

/// The row of a conversation, also of one in which nothing was answered yet.
pub(crate) async fn row_of(gate: &Gate, key: &SessionKey) -> Value {
    let engine = gate.engine();
    let active = active_runs(gate).await.unwrap_or_default();
    let active = active.get(key).map_or(&[][..], Vec::as_slice);
    match engine.library().session(key).await {
        Ok(Some(row)) => entry(&row, active),
        _ => json!({
            "key": keys::write(key), "kind": keys::kind(key), "agentId": key.scope.agent, "updatedAt": null,
            "isMain": key.place == Place::Main, "hasActiveRun": !active.is_empty(), "activeRunIds": active,
        }),
    }
}

async fn last_message(gate: &Gate, row: &SessionRow) -> Result<Option<String>, WireError> {
    let engine = gate.engine();
    let entries = engine.library().entries(engine.tenant(), row.id, (row.head_seq - 8).max(0), 8).await?;
    let text = entries.iter().rev().find_map(|entry| {
        let message = entry.body.message()?;
        let spoken = !matches!(message, Message::ToolResult { .. });
        Some(message.text()).filter(|text| spoken && !text.trim().is_empty())
    });
    Ok(text.map(|text| shortened(&text, PREVIEW)))
}

fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

pub(crate) async fn list(caller: Caller, params: SessionsList) -> Result<Value, WireError> {
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
        let mut entry = entry(row, active.get(&row.key).map_or(&[][..], Vec::as_slice));
        if params.include_last_message == Some(true)
            && let Some(text) = last_message(gate, row).await?
        {
            entry["lastMessagePreview"] = json!(text);
        }
        sessions.push(entry);
    }
    let more = offset + sessions.len() < total;
    Ok(json!({
        "ts": now, "path": "(multiple)", "count": sessions.len(), "totalCount": total, "limitApplied": limit,
        "hasMore": more, "nextOffset": if more { json!(offset + sessions.len()) } else { Value::Null },
        "owners": [], "defaults": defaults(gate), "sessions": sessions,
    }))
}

pub(crate) async fn describe(caller: Caller, params: SessionsDescribe) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, None, &params.key)?;
    let mut session = row_of(gate, &key).await;
    if params.include_last_message == Some(true)
        && let Some(row) = gate.engine().library().session(&key).await?
        && let Some(text) = last_message(gate, &row).await?
    {
        session["lastMessagePreview"] = json!(text);
    }
    Ok(json!({ "session": session }))
}

pub(crate) async fn preview(caller: Caller, params: SessionsPreview) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let (limit, most) = (params.limit.unwrap_or(12).min(100), params.max_chars.unwrap_or(240));
    let mut previews = Vec::new();
    for name in params.keys.iter().take(PREVIEWED) {
        let Ok(key) = key_of(gate, None, name) else {
            previews.push(json!({ "key": name, "status": "missing", "items": [] }));
            continue;
        };
        let tail = history::tail(gate, &key, limit, 0).await?;
        let items: Vec<Value> =
            tail.messages.iter().filter_map(|message| preview_item(message, most)).collect();
        let status = match (&tail.row, items.is_empty()) {
            (None, _) => "missing",
            (Some(_), true) => "empty",
            (Some(_), false) => "ok",
        };
        previews.push(json!({ "key": name, "status": status, "items": items }));
    }
    Ok(json!({ "ts": gate.shared.now(), "previews": previews }))
}

fn preview_item(message: &Value, most: usize) -> Option<Value> {
    let texts: Vec<&str> =
        message["content"].as_array()?.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = shortened(&texts.join(" "), most);
    let role = if message["role"] == "toolResult" { "tool" } else { message["role"].as_str()? };
    (!text.is_empty()).then(|| json!({ "role": role, "text": text }))
}

pub(crate) async fn resolve(caller: Caller, params: SessionsResolve) -> Result<Value, WireError> {
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
    Ok(json!({ "ok": true, "key": keys::write(&found), "agentId": found.scope.agent }))
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

pub(crate) async fn reset(caller: Caller, params: SessionsReset) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    command(gate, &key, "/new").await?.map_err(|error| WireError::from(&error))?;
    Ok(json!({ "ok": true, "key": keys::write(&key), "entry": row_of(gate, &key).await }))
}

pub(crate) async fn compact(caller: Caller, params: SessionsCompact) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    if gate.engine().library().session(&key).await?.is_none() {
        return Ok(json!({ "ok": true, "key": name, "compacted": false, "reason": "no sessionId" }));
    }
    // A log is never cut: the older part is summed up and stays readable.
    match command(gate, &key, "/compact").await? {
        Ok(()) => Ok(json!({ "ok": true, "key": name, "compacted": true })),
        Err(error) => Ok(json!({ "ok": true, "key": name, "compacted": false, "reason": error.message })),
    }
}

pub(crate) async fn delete(caller: Caller, params: SessionsDelete) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    if key.place == Place::Main {
        return Err(WireError::invalid(format!("Cannot delete the main session ({name}).")));
    }
    let removed = gate.engine().delete_session(&gate.principal(), &key).await?;
    Ok(json!({ "ok": true, "key": name, "deleted": !removed.is_empty(), "archived": [] }))
}

pub(crate) async fn subscribe(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    caller.peer.watch_sessions(true);
    Ok(json!({ "subscribed": true, "cursor": caller.gate.shared.hub.cursor() }))
}

pub(crate) async fn unsubscribe(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    caller.peer.watch_sessions(false);
    Ok(json!({ "subscribed": false }))
}

pub(crate) async fn watch(caller: Caller, params: MessagesSubscribe) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let name = keys::write(&key);
    if !caller.peer.watch_messages(&name) {
        return Err(WireError::invalid("too many conversations are watched; unsubscribe from one first"));
    }
    let mut answer =
        json!({ "subscribed": true, "key": name, "approvalReplay": { "pending": [], "truncated": false } });
    let row = gate.engine().library().session(&key).await?;
    if let (Some(after), Some(row)) = (params.after_seq, &row) {
        // Watched first and read afterwards: a message may be told twice, by its place, and none is left out.
        let (messages, more) = history::after(gate, row, after).await?;
        for message in messages {
            let payload = json!({
                "sessionKey": name, "agentId": key.scope.agent, "messageId": message["id"],
                "messageSeq": message["__openclaw"]["seq"], "message": message, "replayed": true,
            });
            caller.peer.tell("session.message", &payload);
        }
        answer["hasMore"] = json!(more);
    }
    answer["headSeq"] = json!(row.map_or(0, |row| row.head_seq));
    Ok(answer)
}

pub(crate) async fn unwatch(caller: Caller, params: OneSession) -> Result<Value, WireError> {
    let key = key_of(&caller.gate, params.agent_id.as_deref(), &params.key)?;
    caller.peer.unwatch_messages(&keys::write(&key));
    Ok(json!({ "subscribed": false, "key": keys::write(&key) }))
}
