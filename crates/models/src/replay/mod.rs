//! A conversation as one model may read it, whoever spoke in it before.
//!
//! Pure: the same history gives the same bytes, and what was once written stays as the conversation goes on, so that a
//! provider's prompt cache holds. What a vendor alone asks for, such as who must speak first, is its format's.

mod ids;
mod pairs;
#[cfg(test)]
mod tests;

use tidegate_protocol::{Block, Message, Origin, StopReason};

use crate::catalogue::ModelInfo;
pub(crate) use ids::Ids;
use ids::Renaming;
pub use pairs::{Paired, paired};

/// What stands for an image that the model cannot read.
const NO_IMAGE: &str = "[an image was here; this model reads no images]";

/// The conversation for this model.
pub(crate) fn replay(messages: &[Message], model: &ModelInfo, ids: Ids) -> Vec<Message> {
    let mut renaming = Renaming::new(ids);
    let mut out = Vec::with_capacity(messages.len());
    let at = |place: usize| messages.get(place);
    for turn in pairs::turns(messages) {
        match turn {
            pairs::Turn::User(place) => out.extend(at(place).map(|message| seen(message, model))),
            pairs::Turn::Assistant { at: place, results } => {
                let Some(message) = at(place) else { continue };
                let results = results.iter().filter_map(|result| match result {
                    Paired::At(place) => at(*place),
                    Paired::Missing(result) => Some(result),
                });
                let results = results.map(|result| seen(result, model));
                answer(message, results, model, &mut renaming, &mut out);
            }
        }
    }
    out
}

/// One message of an assistant with the results of its calls, one for each and in their order.
fn answer(
    message: &Message,
    results: impl Iterator<Item = Message>,
    model: &ModelInfo,
    renaming: &mut Renaming,
    out: &mut Vec<Message>,
) {
    let Message::Assistant { content, origin, usage, stop_reason, error_message, timestamp } = message else {
        return;
    };
    let same = is_same(origin, model);
    let mut calls = Vec::new();
    let content: Vec<Block> = content
        .iter()
        .filter_map(|block| if same { own(block) } else { foreign(block) })
        .map(|block| match block {
            Block::ToolCall { id, name, arguments, thought_signature } => {
                let id = renaming.next(&id, same);
                calls.push((id.clone(), name.clone()));
                Block::ToolCall { id, name, arguments, thought_signature }
            }
            block => block,
        })
        .collect();
    if content.is_empty() {
        return;
    }
    out.push(Message::Assistant {
        content,
        origin: origin.clone(),
        usage: *usage,
        stop_reason: *stop_reason,
        error_message: error_message.clone(),
        timestamp: *timestamp,
    });
    out.extend(results.zip(calls).map(|(result, (id, name))| answering(result, id, name)));
}

/// The result under its call's id and name.
fn answering(result: Message, id: String, name: String) -> Message {
    match result {
        Message::ToolResult { content, is_error, details, timestamp, .. } => {
            Message::ToolResult { tool_call_id: id, tool_name: name, content, is_error, details, timestamp }
        }
        other => other,
    }
}

fn is_same(origin: &Origin, model: &ModelInfo) -> bool {
    origin.provider == model.provider && origin.api == model.api.as_str() && origin.model == model.id
}

/// Whether the message may be shown again: what failed or was stopped is no example to follow, and half a thought of it
/// may carry no signature.
fn is_whole(stop_reason: StopReason) -> bool {
    !matches!(stop_reason, StopReason::Error | StopReason::Aborted)
}

/// A block the model wrote itself: as it was, unless it says nothing at all.
fn own(block: &Block) -> Option<Block> {
    let says_something = match block {
        Block::Text { text, text_signature } => !text.is_empty() || text_signature.is_some(),
        Block::Thinking { thinking, thinking_signature, redacted } => {
            thinking_signature.is_some() || !thinking.is_empty() && !redacted
        }
        Block::Image { .. } | Block::ToolCall { .. } => true,
    };
    says_something.then(|| block.clone())
}

/// A block another model wrote: its words, without what only that model can read.
fn foreign(block: &Block) -> Option<Block> {
    match block {
        Block::Text { text, .. } => (!text.is_empty()).then(|| Block::text(text)),
        Block::Thinking { thinking, redacted, .. } => {
            (!redacted && !thinking.trim().is_empty()).then(|| Block::text(thinking))
        }
        Block::Image { .. } => Some(block.clone()),
        Block::ToolCall { id, name, arguments, .. } => Some(Block::ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
            thought_signature: None,
        }),
    }
}

/// What a person or a tool said, without images the model cannot read.
fn seen(message: &Message, model: &ModelInfo) -> Message {
    let mut message = message.clone();
    if let (false, Message::User { content, .. } | Message::ToolResult { content, .. }) =
        (model.images, &mut message)
    {
        for block in content.iter_mut().filter(|block| matches!(block, Block::Image { .. })) {
            *block = Block::text(NO_IMAGE);
        }
    }
    message
}
