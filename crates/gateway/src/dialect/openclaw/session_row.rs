//! A conversation as clients list it, and what holds where nothing was chosen for one.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_engine::Wish;
use tidegate_protocol::{
    AgentId, ChannelName, Message, Place, RunState, SessionId, SessionKey, ThinkingLevel, Verbose,
};
use tidegate_storage::{RunFilter, SessionRow as Stored};

use super::keys;
use crate::gate::Gate;
use crate::ws::frame::WireError;

/// Runs looked at to know what is under way.
const ACTIVE: u32 = 500;
/// Characters of a preview.
const PREVIEW: usize = 120;

/// What holds where nothing was chosen.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDefaults {
    model_provider: Option<String>,
    model: Option<String>,
    /// The model's window.
    context_tokens: Option<u32>,
}

/// A conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRow {
    pub(super) key: String,
    /// `direct` or `group`.
    kind: &'static str,
    agent_id: AgentId,
    /// `null` until something was answered in it.
    updated_at: Option<i64>,
    is_main: bool,
    pub(super) has_active_run: bool,
    /// What their callers call them.
    pub(super) active_run_ids: Vec<String>,
    #[serde(flatten)]
    log: Option<SessionLog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_message_preview: Option<String>,
}

/// What is known of a conversation in which something was answered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionLog {
    session_id: SessionId,
    last_interaction_at: i64,
    created_at: i64,
    chat_type: &'static str,
    input_tokens: u64,
    output_tokens: u64,
    /// How much of the model's window it filled at the last call.
    total_tokens: u64,
    total_tokens_fresh: bool,
    compaction_count: u32,
    /// `running` or `done`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    derived_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<ChannelName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbose_level: Option<&'static str>,
}

pub(crate) fn defaults(gate: &Gate) -> SessionDefaults {
    let settings = gate.engine().settings();
    let model = settings
        .scope(None)
        .and_then(|scope| settings.run_spec(&scope, &Wish::default()))
        .ok()
        .and_then(|spec| spec.models.into_iter().next());
    let window = model.as_ref().and_then(|model| settings.catalogue().model(model));
    SessionDefaults {
        context_tokens: window.map(|info| info.context_window),
        model_provider: model.as_ref().map(|model| model.provider.clone()),
        model: model.map(|model| model.model),
    }
}

/// Runs under way, by conversation: what their callers call them.
pub(super) async fn active_runs(gate: &Gate) -> Result<HashMap<SessionKey, Vec<String>>, WireError> {
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

/// A conversation with what is under way in it.
pub(super) fn of_stored(row: &Stored, active: &[String]) -> SessionRow {
    let (usage, settings) = (row.usage, &row.settings);
    let log = SessionLog {
        session_id: row.id,
        last_interaction_at: row.updated_at,
        created_at: row.created_at,
        chat_type: keys::kind(&row.key),
        input_tokens: usage.input + usage.cache_read + usage.cache_write,
        output_tokens: usage.output,
        total_tokens: row.context_tokens,
        total_tokens_fresh: true,
        compaction_count: row.compactions,
        status: if active.is_empty() { "done" } else { "running" },
        label: row.title.clone(),
        display_name: row.title.clone(),
        derived_title: row.title.clone(),
        channel: keys::channel(&row.key).cloned(),
        model_provider: row.provider.clone(),
        model: settings.model.clone(),
        thinking_level: settings.thinking.map(ThinkingLevel::as_str),
        verbose_level: settings.verbose.map(Verbose::as_str),
    };
    SessionRow { updated_at: Some(row.updated_at), log: Some(log), ..unanswered(&row.key, active) }
}

/// One in which nothing was answered yet.
fn unanswered(key: &SessionKey, active: &[String]) -> SessionRow {
    SessionRow {
        key: keys::write(key),
        kind: keys::kind(key),
        agent_id: key.scope.agent.clone(),
        updated_at: None,
        is_main: key.place == Place::Main,
        has_active_run: !active.is_empty(),
        active_run_ids: active.to_vec(),
        log: None,
        last_message_preview: None,
    }
}

/// The row of a conversation, also of one in which nothing was answered yet.
pub(crate) async fn row_of(gate: &Gate, key: &SessionKey) -> SessionRow {
    let engine = gate.engine();
    let active = active_runs(gate).await.unwrap_or_default();
    let active = active.get(key).map_or(&[][..], Vec::as_slice);
    match engine.library().session(key).await {
        Ok(Some(row)) => of_stored(&row, active),
        _ => unanswered(key, active),
    }
}

/// The beginning of what was last said in it.
pub(super) async fn last_message(gate: &Gate, row: &Stored) -> Result<Option<String>, WireError> {
    let engine = gate.engine();
    let entries = engine.library().entries(engine.tenant(), row.id, (row.head_seq - 8).max(0), 8).await?;
    let text = entries.iter().rev().find_map(|entry| {
        let message = entry.body.message()?;
        let spoken = !matches!(message, Message::ToolResult { .. });
        Some(message.text()).filter(|text| spoken && !text.trim().is_empty())
    });
    Ok(text.map(|text| shortened(&text, PREVIEW)))
}

pub(super) fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
