//! From what was said to what a run is asked. Pure.
//!
//! Where the program keeps the conversation (it serves one request here), its messages are the conversation, calls and
//! results included. Where it is kept here, the log is, and only what is new joins it: the results of calls, or one text.

use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

use super::prompt::{Prompt, instructions};
use super::said::{Called, Part, Said, texts_of};

/// Who keeps the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeper {
    Program,
    Gateway,
}

/// What a run is asked.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) instructions: Option<String>,
    /// The question as a text: what is shown of it.
    pub(super) text: String,
    /// What was said before it, images as their addresses.
    pub(super) before: Vec<Message>,
    /// The question where it is more than its text.
    pub(super) input: Option<Message>,
}

/// `None` when nothing is asked.
pub(super) fn asked(said: &[Said], keeper: Keeper, now: i64) -> Option<Asked> {
    let instructions = instructions(said);
    let asks = |said: &Said| matches!(said, Said::User { .. } | Said::Result { .. });
    let newest = said.iter().rposition(|said| asks(said) && !is_empty(said));
    let Some(newest) = newest else {
        let text = Prompt::read(said).message;
        return (!text.is_empty()).then(|| Asked { instructions, text, ..Asked::default() });
    };
    let first = match keeper {
        Keeper::Program => 0,
        Keeper::Gateway => {
            let is_answer = |said: &Said| matches!(said, Said::Assistant { .. });
            let after = said[..newest].iter().rposition(is_answer).map_or(0, |at| at + 1);
            let has_results = said[after..=newest].iter().any(is_answered_call);
            if !has_results {
                return Some(as_text(said, newest, instructions, now));
            }
            after
        }
    };
    let mut messages: Vec<Message> = said[first..=newest]
        .iter()
        .filter(|said| !is_empty(said))
        .filter_map(|one| message(one, said, now))
        .collect();
    let input = messages.pop()?;
    let text = match &input {
        Message::User { .. } => input.text(),
        _ => format!("Tool: {}", input.text()),
    };
    let plain =
        matches!(&input, Message::User { content, .. } if matches!(content.as_slice(), [Block::Text { .. }]));
    Some(Asked { instructions, text, before: messages, input: (!plain).then_some(input) })
}

fn is_answered_call(said: &Said) -> bool {
    matches!(said, Said::Result { call: Some(_), .. })
}

/// One text, with the images of the newest message.
fn as_text(said: &[Said], newest: usize, instructions: Option<String>, now: i64) -> Asked {
    let text = Prompt::read(said).message;
    let images = match &said[newest] {
        Said::User { parts } => blocks(parts).into_iter().filter(is_image).collect(),
        _ => Vec::new(),
    };
    let with_images = |images: Vec<Block>| {
        let words = (!text.is_empty()).then(|| Block::text(text.clone()));
        Message::User { content: words.into_iter().chain(images).collect(), timestamp: now }
    };
    let input = (!images.is_empty()).then(|| with_images(images));
    Asked { instructions, text, before: Vec::new(), input }
}

fn is_image(block: &Block) -> bool {
    matches!(block, Block::Image { .. })
}

fn is_empty(said: &Said) -> bool {
    match said {
        Said::Instructions(_) => true,
        Said::User { parts } => {
            texts_of(parts).trim().is_empty() && !parts.iter().any(|part| matches!(part, Part::Image(_)))
        }
        Said::Assistant { text, calls } => text.trim().is_empty() && calls.is_empty(),
        // A result may be empty and still be one.
        Said::Result { call, text, .. } => call.is_none() && text.trim().is_empty(),
    }
}

fn message(one: &Said, all: &[Said], now: i64) -> Option<Message> {
    Some(match one {
        Said::Instructions(_) => return None,
        Said::User { parts } => Message::User { content: blocks(parts), timestamp: now },
        Said::Assistant { text, calls } => {
            let words = (!text.trim().is_empty()).then(|| Block::text(text.clone()));
            Message::Assistant {
                content: words.into_iter().chain(calls.iter().map(call_block)).collect(),
                origin: brought(),
                usage: Usage::default(),
                stop_reason: if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse },
                error_message: None,
                timestamp: now,
            }
        }
        Said::Result { call, label, text } => {
            let called = call.as_ref().and_then(|id| called(all, id));
            let name = called.map(|call| call.name.clone()).or_else(|| label.clone());
            Message::ToolResult {
                tool_call_id: call.clone().unwrap_or_default(),
                tool_name: name.unwrap_or_else(|| "tool".to_owned()),
                content: vec![Block::text(text.clone())],
                is_error: false,
                details: None,
                timestamp: now,
            }
        }
    })
}

fn called<'a>(all: &'a [Said], id: &str) -> Option<&'a Called> {
    let calls = all.iter().flat_map(|said| match said {
        Said::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    calls.into_iter().find(|call| call.id == id)
}

fn call_block(call: &Called) -> Block {
    let Called { id, name, arguments } = call.clone();
    Block::ToolCall { id, name, arguments, thought_signature: None }
}

/// Texts as they are; an image has its address in place of its bytes until somebody gets them.
fn blocks(parts: &[Part]) -> Vec<Block> {
    let block = |part: &Part| match part {
        Part::Text(text) => Block::text(text.clone()),
        Part::Image(address) => Block::Image { data: address.clone(), mime_type: String::new() },
    };
    let kept = parts.iter().filter(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
    kept.map(block).collect()
}

/// Who answered what a program remembers.
fn brought() -> Origin {
    let name = || "caller".to_owned();
    Origin { api: name(), provider: name(), model: name(), profile_id: None, route: name(), stage: name() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::said::of_messages;
    use super::*;

    fn read(messages: &serde_json::Value, keeper: Keeper) -> Asked {
        asked(&of_messages(messages.as_array().unwrap()), keeper, 7).unwrap()
    }

    fn round() -> serde_json::Value {
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"sea\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "wet"},
        ])
    }

    fn result() -> Message {
        Message::ToolResult {
            tool_call_id: "c1".into(),
            tool_name: "look".into(),
            content: vec![Block::text("wet")],
            is_error: false,
            details: None,
            timestamp: 7,
        }
    }

    #[test]
    fn a_program_that_keeps_the_conversation_brings_all_of_it() {
        let Asked { instructions, before, input, text } = read(&round(), Keeper::Program);
        assert_eq!((instructions.as_deref(), text.as_str()), (Some("be brief"), "Tool: wet"));
        assert_eq!(input, Some(result()));
        assert_eq!(before[0], Message::user("weather?", 7));
        let call = Block::ToolCall {
            id: "c1".into(),
            name: "look".into(),
            arguments: json!({"at": "sea"}),
            thought_signature: None,
        };
        assert_eq!(before[1].content(), [call]);
        assert_eq!(before.len(), 2);
    }

    #[test]
    fn where_the_log_is_kept_here_only_the_results_join_it() {
        let asked = read(&round(), Keeper::Gateway);
        assert_eq!((asked.before, asked.input), (Vec::new(), Some(result())));
        let mut more = round();
        more.as_array_mut().unwrap().push(json!({"role": "user", "content": "and now?"}));
        let asked = read(&more, Keeper::Gateway);
        assert_eq!((asked.before, asked.input, asked.text), (vec![result()], None, "and now?".to_owned()));
    }

    #[test]
    fn a_plain_question_brings_nothing() {
        let plain = json!([{"role": "user", "content": "hi"}]);
        for keeper in [Keeper::Program, Keeper::Gateway] {
            assert_eq!(read(&plain, keeper), Asked { text: "hi".into(), ..Asked::default() });
        }
    }

    #[test]
    fn an_image_stays_beside_its_text_and_may_stand_alone() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
        let both = json!([{"role": "user", "content": [{"type": "text", "text": "what?"}, image]}]);
        for keeper in [Keeper::Program, Keeper::Gateway] {
            let content = read(&both, keeper).input.unwrap().content().to_vec();
            assert_eq!(content.len(), 2, "{keeper:?}");
            let alone = json!([{"role": "user", "content": [image]}]);
            assert_eq!(read(&alone, keeper).input.unwrap().content().len(), 1);
        }
        assert_eq!(asked(&of_messages(&[json!({"role": "user", "content": " "})]), Keeper::Program, 7), None);
    }
}
