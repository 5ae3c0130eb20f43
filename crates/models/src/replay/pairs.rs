//! Every call with one result, directly behind it. Providers refuse a conversation where a call has none, a result has
//! no call, or something stands between them; a run that was interrupted leaves exactly that.

use std::collections::HashSet;

use tidegate_protocol::{Block, Message};

use super::is_whole;

/// What a call without a result is answered with.
pub(super) const NO_RESULT: &str =
    "no result was recorded: the run was interrupted, and whether the call took effect is unknown";

/// A message of a conversation in which every call has its result.
#[derive(Debug, Clone, PartialEq)]
pub enum Paired {
    /// The one at this place of what was given.
    At(usize),
    /// The result that was missing.
    Missing(Message),
}

/// A conversation with each result directly behind its call, in the order of the calls. A user's message that stood
/// between the two is moved behind them, the first of two results wins, results without a call are left out, and so are
/// answers that failed or were stopped, with all that belongs to them.
pub fn paired<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Paired> {
    let mut out = Vec::new();
    for turn in turns(messages) {
        match turn {
            Turn::User(at) => out.push(Paired::At(at)),
            Turn::Assistant { at, results } => {
                out.push(Paired::At(at));
                out.extend(results);
            }
        }
    }
    out
}

/// A piece of the conversation that stands by itself.
pub(super) enum Turn {
    User(usize),
    /// As many results as the message has calls, in their order.
    Assistant {
        at: usize,
        results: Vec<Paired>,
    },
}

/// The conversation in turns. A result belongs to the assistant's message before it.
pub(super) fn turns<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            Message::User { .. } => match &mut open {
                Some(open) => open.behind.push(at),
                None => turns.push(Turn::User(at)),
            },
            Message::Assistant { stop_reason, .. } if is_whole(*stop_reason) => {
                close(open.replace(Open::new(at, message)), &mut turns);
            }
            Message::Assistant { content, .. } => {
                if let Some(open) = &mut open {
                    open.omitted.extend(calls(content).map(|(id, _)| id));
                }
            }
            Message::ToolResult { tool_call_id, .. } => {
                if let Some(open) = &mut open {
                    open.answer(tool_call_id, at);
                }
            }
        }
    }
    close(open, &mut turns);
    turns
}

/// An assistant's message whose results are being looked for.
struct Open<'a> {
    at: usize,
    timestamp: i64,
    calls: Vec<Call<'a>>,
    /// Ids of calls in messages that were left out since.
    omitted: HashSet<&'a str>,
    behind: Vec<usize>,
}

struct Call<'a> {
    id: &'a str,
    name: &'a str,
    result: Option<usize>,
}

impl<'a> Open<'a> {
    fn new(at: usize, message: &'a Message) -> Self {
        let calls = calls(message.content()).map(|(id, name)| Call { id, name, result: None }).collect();
        Self { at, timestamp: message.timestamp(), calls, omitted: HashSet::new(), behind: Vec::new() }
    }

    /// The first call of that id that has none yet: two calls of one id have two results.
    fn answer(&mut self, id: &str, result: usize) {
        if self.omitted.contains(id) {
            return;
        }
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id && call.result.is_none()) {
            call.result = Some(result);
        }
    }
}

fn close(open: Option<Open<'_>>, turns: &mut Vec<Turn>) {
    let Some(Open { at, timestamp, calls, behind, .. }) = open else { return };
    let result = |call: &Call<'_>| call.result.map_or_else(|| missing(call, timestamp), Paired::At);
    turns.push(Turn::Assistant { at, results: calls.iter().map(result).collect() });
    turns.extend(behind.into_iter().map(Turn::User));
}

fn missing(call: &Call<'_>, timestamp: i64) -> Paired {
    Paired::Missing(Message::ToolResult {
        tool_call_id: call.id.to_owned(),
        tool_name: call.name.to_owned(),
        content: vec![Block::text(NO_RESULT)],
        is_error: true,
        details: None,
        timestamp,
    })
}

fn calls(content: &[Block]) -> impl Iterator<Item = (&str, &str)> {
    content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, .. } => Some((id.as_str(), name.as_str())),
        _ => None,
    })
}
