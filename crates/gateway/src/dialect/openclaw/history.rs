//! The log of a conversation as clients read it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_engine::spoken;
use tidegate_protocol::{
    Block, Entry, EntryBody, EntryId, Message, Origin, Role, RunId, SessionKey, StopReason, Usage,
};
use tidegate_storage::{RunFilter, SessionRow};

use crate::gate::Gate;
use crate::ws::frame::{WireError, to_json};

/// Bytes of messages in one answer; the oldest are left out.
const LARGEST: usize = 6 * 1024 * 1024;
/// Bytes of an image that is sent again with its message.
const LARGEST_IMAGE: usize = 128 * 1024;
/// Lines that are read at most for one answer.
const LINES: u32 = 2000;
/// Runs whose names are looked up.
const RUNS: u32 = 200;

/// A message as clients read it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatMessage {
    pub(crate) role: Role,
    content: Vec<ChatBlock>,
    timestamp: i64,
    /// Of its line in the log; words that are not there yet have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<EntryId>,
    /// What is known of it besides.
    #[serde(rename = "__openclaw", skip_serializing_if = "Option::is_none")]
    mark: Option<Mark>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// Of an answer.
    #[serde(flatten)]
    origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ChatUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    /// Of a tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    /// As the tool wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ChatBlock {
    Omitted(OmittedImage),
    Whole(Block),
}

/// An image whose bytes were left out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OmittedImage {
    #[serde(rename = "type")]
    kind: &'static str,
    mime_type: String,
    omitted: bool,
    bytes: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mark {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<EntryId>,
    /// Its place in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    cost: ChatCost,
}

/// In dollars.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ChatCost {
    total: f64,
}

impl ChatUsage {
    fn of(usage: &Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total_tokens: usage.total(),
            cost: ChatCost { total: usage.cost.usd() },
        }
    }
}

impl ChatMessage {
    fn new(role: Role, content: Vec<ChatBlock>, timestamp: i64) -> Self {
        Self {
            role,
            content,
            timestamp,
            id: None,
            mark: None,
            idempotency_key: None,
            origin: None,
            usage: None,
            stop_reason: None,
            error_message: None,
            tool_call_id: None,
            tool_name: None,
            is_error: None,
            details: None,
        }
    }

    /// Words that are in no log.
    pub(crate) fn words(role: Role, text: &str, at: i64) -> Self {
        Self::new(role, vec![ChatBlock::Whole(Block::text(text))], at)
    }

    /// Its place in the log.
    pub(crate) fn seq(&self) -> Option<i64> {
        self.mark.as_ref().and_then(|mark| mark.seq)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            ChatBlock::Whole(Block::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The end of a conversation's log.
pub(crate) struct Tail {
    pub(crate) row: Option<SessionRow>,
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) has_more: bool,
}

/// The newest messages: `limit` of them, those before the newest `offset`.
pub(crate) async fn tail(gate: &Gate, key: &SessionKey, limit: u32, offset: u32) -> Result<Tail, WireError> {
    let engine = gate.engine();
    let Some(row) = engine.library().session(key).await? else {
        return Ok(Tail { row: None, messages: Vec::new(), has_more: false });
    };
    let window = i64::from(limit.min(LINES)).saturating_mul(2);
    let last = (row.head_seq - i64::from(offset)).max(0);
    let after = (last - window).max(0);
    let count = u32::try_from(last - after).unwrap_or(LINES);
    let entries = engine.library().entries(engine.tenant(), row.id, after, count).await?;
    let names = run_names(gate, key).await?;
    let named = |entry: &Entry| {
        let message = message(entry)?;
        Some(match names.get(&entry.run_id) {
            Some(name) => with_run_name(message, name),
            None => message,
        })
    };
    let mut messages: Vec<ChatMessage> = entries.iter().filter_map(named).collect();
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut has_more = after > 0;
    if messages.len() > wanted {
        messages.drain(..messages.len() - wanted);
        has_more = true;
    }
    Ok(Tail { row: Some(row), has_more: cap(&mut messages) || has_more, messages })
}

/// What callers called the newest runs of a conversation.
async fn run_names(gate: &Gate, key: &SessionKey) -> Result<HashMap<RunId, String>, WireError> {
    let engine = gate.engine();
    let filter = RunFilter { session: Some(key.clone()), limit: RUNS, ..RunFilter::default() };
    let rows = engine.library().runs(engine.tenant(), filter).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.id, row.client_key?))).collect())
}

/// Messages after a place in the log, the oldest first; with whether there are more.
pub(crate) async fn after(
    gate: &Gate,
    row: &SessionRow,
    seq: i64,
) -> Result<(Vec<ChatMessage>, bool), WireError> {
    let engine = gate.engine();
    let entries = engine.library().entries(engine.tenant(), row.id, seq, LINES).await?;
    let more = entries.last().is_some_and(|entry| entry.seq < row.head_seq);
    Ok((entries.iter().filter_map(message).collect(), more))
}

/// Leaves the oldest out until the rest is small enough; one is always kept.
fn cap(messages: &mut Vec<impl Serialize>) -> bool {
    let sizes: Vec<usize> = messages.iter().map(|message| to_json(message).len()).collect();
    let (mut bytes, mut first) = (0, messages.len());
    for (at, size) in sizes.iter().enumerate().rev() {
        bytes += size;
        if bytes > LARGEST && first < messages.len() {
            break;
        }
        first = at;
    }
    messages.drain(..first);
    first > 0
}

/// A line of the log as a message; `None` for what no client shows.
pub(crate) fn message(entry: &Entry) -> Option<ChatMessage> {
    let EntryBody::Message(message) = &entry.body else { return None };
    let mut shown = match message {
        Message::User { content, timestamp } => {
            ChatMessage::new(Role::User, content.iter().map(thinned).collect(), *timestamp)
        }
        Message::Assistant { content, origin, usage, stop_reason, error_message, timestamp } => ChatMessage {
            origin: Some(origin.clone()),
            usage: Some(ChatUsage::of(usage)),
            stop_reason: Some(*stop_reason),
            error_message: error_message.clone(),
            ..ChatMessage::new(Role::Assistant, content.iter().map(said).collect(), *timestamp)
        },
        Message::ToolResult { tool_call_id, tool_name, content, is_error, details, timestamp } => {
            ChatMessage {
                tool_call_id: Some(tool_call_id.clone()),
                tool_name: Some(tool_name.clone()),
                is_error: Some(*is_error),
                details: details.clone(),
                ..ChatMessage::new(
                    Role::ToolResult,
                    content.iter().cloned().map(ChatBlock::Whole).collect(),
                    *timestamp,
                )
            }
        }
    };
    shown.id = Some(entry.id);
    shown.mark = Some(Mark { id: Some(entry.id), seq: Some(entry.seq), idempotency_key: None });
    Some(with_run_name(shown, &entry.run_id.to_string()))
}

/// A piece of what an agent said. The token by which it says nothing is not for people.
fn said(block: &Block) -> ChatBlock {
    ChatBlock::Whole(match block {
        Block::Text { text, .. } => Block::text(spoken(text)),
        other => other.clone(),
    })
}

/// A piece of what came in, without the bytes of a large image: clients know what they sent, and an answer has to stay
/// readable.
fn thinned(block: &Block) -> ChatBlock {
    if let Block::Image { data, mime_type } = block {
        let bytes = data.len() * 3 / 4;
        if bytes > LARGEST_IMAGE {
            let mime_type = mime_type.clone();
            return ChatBlock::Omitted(OmittedImage { kind: "image", mime_type, omitted: true, bytes });
        }
    }
    ChatBlock::Whole(block.clone())
}

/// The message with the name that the caller gave its run: clients match the message of a caller with what they sent. The
/// older ones look for it beside the text, the newer ones among what is not text.
pub(crate) fn with_run_name(mut message: ChatMessage, run: &str) -> ChatMessage {
    if message.role == Role::User {
        let key = format!("{run}:user");
        let mark = message.mark.get_or_insert(Mark { id: None, seq: None, idempotency_key: None });
        mark.idempotency_key = Some(key.clone());
        message.idempotency_key = Some(key);
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_messages_make_room_and_the_newest_stays() {
        let large = json!("x".repeat(LARGEST));
        let mut messages = vec![json!(1), large.clone(), json!(2)];
        assert!(cap(&mut messages));
        assert_eq!(messages, [json!(2)]);
        let mut one = vec![json!("x".repeat(LARGEST + 10))];
        assert!(!cap(&mut one) && one.len() == 1);
    }
}
