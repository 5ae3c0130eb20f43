//! The log of a conversation as clients read it.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate_engine::spoken;
use tidegate_protocol::{Block, Entry, EntryBody, Message, RunId, SessionKey};
use tidegate_storage::{RunFilter, SessionRow};

use crate::gate::Gate;
use crate::ws::frame::WireError;

/// Bytes of messages in one answer; the oldest are left out.
const LARGEST: usize = 6 * 1024 * 1024;
/// Bytes of an image that is sent again with its message.
const LARGEST_IMAGE: usize = 128 * 1024;
/// Lines that are read at most for one answer.
const LINES: u32 = 2000;
/// Runs whose names are looked up.
const RUNS: u32 = 200;

/// The end of a conversation's log.
pub(crate) struct Tail {
    pub(crate) row: Option<SessionRow>,
    pub(crate) messages: Vec<Value>,
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
    let mut messages: Vec<Value> = entries.iter().filter_map(named).collect();
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
pub(crate) async fn after(gate: &Gate, row: &SessionRow, seq: i64) -> Result<(Vec<Value>, bool), WireError> {
    let engine = gate.engine();
    let entries = engine.library().entries(engine.tenant(), row.id, seq, LINES).await?;
    let more = entries.last().is_some_and(|entry| entry.seq < row.head_seq);
    Ok((entries.iter().filter_map(message).collect(), more))
}

/// Leaves the oldest out until the rest is small enough; one is always kept.
fn cap(messages: &mut Vec<Value>) -> bool {
    let sizes: Vec<usize> = messages.iter().map(|message| message.to_string().len()).collect();
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
pub(crate) fn message(entry: &Entry) -> Option<Value> {
    let EntryBody::Message(message) = &entry.body else { return None };
    let mut value = serde_json::to_value(message).ok()?;
    if let Message::Assistant { content, usage, .. } = message {
        // The token by which an agent says nothing is not for people.
        let shown = content.iter().map(|block| match block {
            Block::Text { text, .. } => json!({ "type": "text", "text": spoken(text) }),
            other => serde_json::to_value(other).unwrap_or_default(),
        });
        value["content"] = shown.collect();
        value["usage"]["totalTokens"] = json!(usage.total());
        value["usage"]["cost"] = json!({ "total": usage.cost.usd() });
    }
    value["id"] = json!(entry.id);
    value["__openclaw"] = json!({ "id": entry.id, "seq": entry.seq });
    if matches!(message, Message::User { .. }) {
        thin_images(&mut value);
        value = with_run_name(value, &entry.run_id.to_string());
    }
    Some(value)
}

/// Leaves out the bytes of large images: clients know what they sent, and an answer has to stay readable.
fn thin_images(message: &mut Value) {
    for block in message["content"].as_array_mut().into_iter().flatten() {
        let bytes = block["data"].as_str().map_or(0, |data| data.len() * 3 / 4);
        if block["type"] == "image" && bytes > LARGEST_IMAGE {
            *block =
                json!({ "type": "image", "mimeType": block["mimeType"], "omitted": true, "bytes": bytes });
        }
    }
}

/// The message with the name that the caller gave its run: clients match the message of a caller with what they sent. The
/// older ones look for it beside the text, the newer ones among what is not text.
pub(crate) fn with_run_name(mut message: Value, run: &str) -> Value {
    if message["role"] == "user" {
        let key = json!(format!("{run}:user"));
        message["__openclaw"]["idempotencyKey"] = key.clone();
        message["idempotencyKey"] = key;
    }
    message
}

#[cfg(test)]
mod tests {
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
