//! What a run did, read back from its lines.

use serde_json::{Value, json};
use tidegate_protocol::{
    Block, Message, Origin, ToolCall, ToolError, ToolErrorCode, ToolMeta, ToolResult, ToolSource,
};

use super::turn::StepLimit;

/// Under which name a refused round tells its limit. No tool's result has it: see [`without_reserved`].
const STEP_LIMIT: &str = "tidegate:stepLimit";
/// Who "answered" with calls that a person wrote.
const BY_HAND: &str = "manual";

pub(super) fn by_hand() -> Origin {
    let name = || BY_HAND.to_owned();
    Origin { api: name(), provider: name(), model: name(), profile_id: None, route: name(), stage: name() }
}

/// The calls of an answer, in order.
pub fn calls_of(message: &Message) -> Vec<ToolCall> {
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

/// The calls among a run's lines, each with its result; without those that were refused beyond the step limit. A model may use an id once more: each call has the first result
/// behind it that no call before it has.
pub fn calls_made(messages: &[&Message]) -> Vec<(ToolCall, ToolResult)> {
    let mut made = Vec::new();
    let mut taken = vec![false; messages.len()];
    for (at, message) in messages.iter().enumerate() {
        for call in calls_of(message) {
            let mut behind = messages.iter().enumerate().skip(at + 1).filter(|(at, _)| !taken[*at]);
            let found = behind.find_map(|(at, message)| Some((at, result_of(message, &call)?)));
            if let Some((at, result)) = found {
                taken[at] = true;
                let refused = !result.ok && refused_at(result.data.as_ref()).is_some();
                made.extend((!refused).then_some((call, result)));
            }
        }
    }
    made
}

/// What the results of a round that was not run say beside their words, so that the end can be read back.
pub(super) fn refusal(steps: u32) -> Value {
    json!({ STEP_LIMIT: steps })
}

/// What a tool answered, without what only a refused round may say.
pub(super) fn without_reserved(mut data: Option<Value>) -> Option<Value> {
    if let Some(Value::Object(data)) = &mut data {
        data.remove(STEP_LIMIT);
    }
    data
}

/// The limit that a run met, if it did, among its lines.
pub fn step_limit(messages: &[&Message]) -> Option<StepLimit> {
    messages.iter().find_map(|message| match message {
        Message::ToolResult { tool_name, details, is_error: true, .. } => {
            Some(StepLimit { steps: refused_at(details.as_ref())?, tool: tool_name.clone() })
        }
        _ => None,
    })
}

/// The limit that a result tells of.
fn refused_at(details: Option<&Value>) -> Option<u32> {
    u32::try_from(details?.get(STEP_LIMIT)?.as_u64()?).ok()
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
