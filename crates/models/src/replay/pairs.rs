//! Every call with one result, directly behind it. Providers refuse a conversation where a call has none, a result has
//! no call, or something stands between them; a run that was interrupted leaves exactly that.

use std::collections::HashSet;

use tidegate_protocol::{Block, Message};

use super::is_whole;

/// What a call without a result is answered with.
pub(super) const NO_RESULT: &str = "no result was recorded; the run was interrupted";

/// A piece of the conversation that stands by itself.
pub(super) enum Turn<'a> {
    User(&'a Message),
    /// As many results as the message has calls, in their order.
    Assistant {
        message: &'a Message,
        results: Vec<Message>,
    },
}

/// The conversation in turns. A result belongs to the assistant's message before it; users' messages between the two are
/// moved behind it. What belongs to a message that is left out is left out too.
pub(super) fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns = Vec::with_capacity(messages.len());
    let mut open: Option<Open<'_>> = None;
    for message in messages {
        match message {
            Message::User { .. } => match &mut open {
                Some(open) => open.behind.push(message),
                None => turns.push(Turn::User(message)),
            },
            Message::Assistant { stop_reason, .. } if is_whole(*stop_reason) => {
                close(open.replace(Open::new(message)), &mut turns);
            }
            Message::Assistant { content, .. } => {
                if let Some(open) = &mut open {
                    open.omitted.extend(calls(content).map(|(id, _)| id));
                }
            }
            Message::ToolResult { tool_call_id, .. } => {
                if let Some(open) = &mut open {
                    open.answer(tool_call_id, message);
                }
            }
        }
    }
    close(open, &mut turns);
    turns
}

/// An assistant's message whose results are being looked for.
struct Open<'a> {
    message: &'a Message,
    calls: Vec<Call<'a>>,
    /// Ids of calls in messages that were left out since.
    omitted: HashSet<&'a str>,
    behind: Vec<&'a Message>,
}

struct Call<'a> {
    id: &'a str,
    name: &'a str,
    result: Option<&'a Message>,
}

impl<'a> Open<'a> {
    fn new(message: &'a Message) -> Self {
        let calls = calls(message.content()).map(|(id, name)| Call { id, name, result: None }).collect();
        Self { message, calls, omitted: HashSet::new(), behind: Vec::new() }
    }

    /// The first call of that id that has none yet: two calls of one id have two results.
    fn answer(&mut self, id: &str, result: &'a Message) {
        if self.omitted.contains(id) {
            return;
        }
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id && call.result.is_none()) {
            call.result = Some(result);
        }
    }
}

fn close<'a>(open: Option<Open<'a>>, turns: &mut Vec<Turn<'a>>) {
    let Some(Open { message, calls, behind, .. }) = open else { return };
    let Message::Assistant { timestamp, .. } = message else { return };
    let results = calls.iter().map(|call| call.result.cloned().unwrap_or_else(|| missing(call, *timestamp)));
    turns.push(Turn::Assistant { message, results: results.collect() });
    turns.extend(behind.into_iter().map(Turn::User));
}

fn missing(call: &Call<'_>, timestamp: i64) -> Message {
    Message::ToolResult {
        tool_call_id: call.id.to_owned(),
        tool_name: call.name.to_owned(),
        content: vec![Block::text(NO_RESULT)],
        is_error: true,
        details: None,
        timestamp,
    }
}

fn calls(content: &[Block]) -> impl Iterator<Item = (&str, &str)> {
    content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, .. } => Some((id.as_str(), name.as_str())),
        _ => None,
    })
}
