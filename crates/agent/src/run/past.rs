//! What a run did, read back from its lines.

use serde_json::Value;
use tidegate_protocol::{
    Block, Message, Origin, ToolCall, ToolError, ToolErrorCode, ToolMeta, ToolResult, ToolSource,
};

/// Who "answered" with calls that a person wrote.
const BY_HAND: &str = "manual";

pub(super) fn by_hand() -> Origin {
    let name = || BY_HAND.to_owned();
    Origin { api: name(), provider: name(), model: name(), profile_id: None, route: name(), stage: name() }
}

/// The calls of an answer, in order.
pub(crate) fn calls_of(message: &Message) -> Vec<ToolCall> {
    let Message::Assistant { content, origin, .. } = message else { return Vec::new() };
    let source = if is_by_hand(origin) { ToolSource::User } else { ToolSource::Model };
    calls_in(content, source)
}

pub(super) fn calls_in(content: &[Block], source: ToolSource) -> Vec<ToolCall> {
    let calls = content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, arguments, .. } => {
            Some(ToolCall { id: id.clone(), name: name.clone(), args: arguments.clone(), source })
        }
        _ => None,
    });
    calls.collect()
}

fn is_by_hand(origin: &Origin) -> bool {
    origin.provider == BY_HAND && origin.route == BY_HAND
}

/// Rounds of tools that the model called for.
pub(super) fn rounds_of<'m>(messages: impl Iterator<Item = &'m Message>) -> u32 {
    let rounds = messages.filter(|message| match message {
        Message::Assistant { origin, .. } => !is_by_hand(origin) && !calls_of(message).is_empty(),
        _ => false,
    });
    u32::try_from(rounds.count()).unwrap_or(u32::MAX)
}

/// The calls among a run's lines, each with its result.
pub fn calls_made(messages: &[&Message]) -> Vec<(ToolCall, ToolResult)> {
    let calls = messages.iter().flat_map(|message| calls_of(message));
    let with_result = calls.filter_map(|call| {
        let result = messages.iter().find_map(|message| result_of(message, &call))?;
        Some((call, result))
    });
    with_result.collect()
}

fn result_of(message: &Message, call: &ToolCall) -> Option<ToolResult> {
    let Message::ToolResult { tool_call_id, tool_name, content, is_error, details, .. } = message else {
        return None;
    };
    if *tool_call_id != call.id {
        return None;
    }
    let error = is_error.then(|| ToolError {
        code: ToolErrorCode::ExecutionError,
        tool: tool_name.clone(),
        message: message.text(),
        details: details.clone().filter(|details| !matches!(details, Value::Null)),
    });
    Some(ToolResult {
        ok: !is_error,
        content: content.clone(),
        data: details.clone(),
        error,
        meta: ToolMeta { tool: tool_name.clone(), duration_ms: 0, truncated: false },
    })
}
