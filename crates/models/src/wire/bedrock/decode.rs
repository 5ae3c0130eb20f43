//! Converse's events.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tidegate_protocol::{StopReason, Usage};

use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::request::Request;
use crate::stream::BlockKind;
use crate::wire::borrowed::Text;
use crate::wire::pieces::CallIds;
use crate::wire::{Decoder, Emit, Key, Names};

pub(super) struct Decode {
    names: Names,
    ids: CallIds,
    /// Hidden thoughts by their block: they come in pieces that are joined as bytes.
    hidden: HashMap<Key, Vec<u8>>,
}

impl Decode {
    pub(super) fn new(request: &Request) -> Self {
        let ids = CallIds::after(&request.messages);
        Self { names: Names::new(&request.tools), ids, hidden: HashMap::new() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart<'a> {
    content_block_index: Key,
    #[serde(borrow)]
    start: Option<Start<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow)]
    tool_use: Option<ToolUse<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    #[serde(borrow)]
    tool_use_id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta<'a> {
    content_block_index: Key,
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    tool_use: Option<Input<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Reasoning<'a>>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    input: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reasoning<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    #[serde(borrow)]
    redacted_content: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    content_block_index: Key,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop<'a> {
    #[serde(borrow)]
    stop_reason: Text<'a>,
}

#[derive(Deserialize)]
struct Metadata {
    usage: Option<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    #[serde(rename = "inputTokens")]
    input: u64,
    #[serde(rename = "outputTokens")]
    output: u64,
    #[serde(rename = "cacheReadInputTokens")]
    cache_read: u64,
    #[serde(rename = "cacheWriteInputTokens")]
    cache_write: u64,
}

fn read<'a, T: Deserialize<'a>>(frame: &Frame<'a>) -> Result<T, Failure> {
    serde_json::from_slice(frame.data).map_err(|error| {
        Failure::new(FailureKind::Broken, format!("the event {} cannot be read: {error}", frame.event))
    })
}

impl Decoder for Decode {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        match frame.event {
            "contentBlockStart" => self.start(read(&frame)?, emit),
            "contentBlockDelta" => self.delta(read(&frame)?, emit)?,
            "contentBlockStop" => emit.close_unless_doubtful(read::<BlockStop>(&frame)?.content_block_index),
            "messageStop" => stop(&read::<MessageStop<'_>>(&frame)?.stop_reason, emit)?,
            "metadata" => {
                if let Some(tokens) = read::<Metadata>(&frame)?.usage {
                    let Tokens { input, output, cache_read, cache_write } = tokens;
                    emit.usage(Usage { input, output, cache_read, cache_write, ..Usage::default() });
                }
            }
            name if name.ends_with("Exception") => return Err(exception(name, frame.data)),
            // `messageStart` says nothing we do not know, and what is new is not for us.
            _ => {}
        }
        Ok(())
    }
}

impl Decode {
    /// Only calls are announced; text and thoughts begin with their first piece.
    fn start(&mut self, event: BlockStart<'_>, emit: &mut Emit) {
        let key = event.content_block_index;
        let Some(call) = event.start.and_then(|start| start.tool_use) else { return };
        if emit.is_done() || emit.is_open(key) {
            return;
        }
        let id = self.ids.next(Some(&call.tool_use_id), &call.name);
        emit.open(key, BlockKind::ToolCall { id, name: self.names.from_wire(&call.name).into_owned() });
    }

    fn delta(&mut self, event: BlockDelta<'_>, emit: &mut Emit) -> Result<(), Failure> {
        let BlockDelta { content_block_index: key, delta } = event;
        if let Some(text) = delta.text {
            emit.open(key, BlockKind::Text);
            emit.push(key, &text);
        }
        if let Some(input) = delta.tool_use {
            emit.push(key, &input.input);
        }
        let Some(reasoning) = delta.reasoning_content else { return Ok(()) };
        emit.open(key, BlockKind::Thinking);
        if let Some(text) = reasoning.text {
            emit.push(key, &text);
        }
        if let Some(signature) = reasoning.signature.filter(|signature| !signature.is_empty()) {
            emit.sign_more(key, &signature);
        }
        if let Some(piece) = reasoning.redacted_content {
            let piece = STANDARD.decode(piece.as_bytes());
            let piece = piece.map_err(|error| Failure::new(FailureKind::Broken, error.to_string()))?;
            let whole = self.hidden.entry(key).or_default();
            whole.extend(piece);
            emit.redact(key);
            emit.sign(key, STANDARD.encode(whole));
        }
        Ok(())
    }
}

fn stop(reason: &str, emit: &mut Emit) -> Result<(), Failure> {
    match reason {
        // Whether a tool is called is known from the calls.
        "end_turn" | "stop_sequence" | "tool_use" => emit.done(StopReason::Stop),
        "max_tokens" | "model_context_window_exceeded" => emit.done(StopReason::Length),
        "guardrail_intervened" | "content_filtered" => {
            let message = format!("the provider's filter ended the answer ({reason})");
            return Err(Failure::new(FailureKind::Refused, message));
        }
        other => {
            return Err(Failure::new(FailureKind::Broken, format!("the model stopped with {other:?}")));
        }
    }
    Ok(())
}

/// A failure inside the stream: its name says what its status would have been.
fn exception(name: &str, data: &[u8]) -> Failure {
    let status = match name {
        "throttlingException" => 429,
        "serviceUnavailableException" => 503,
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "modelTimeoutException" => 408,
        _ => 500,
    };
    let failure = classify(Some(status), &String::from_utf8_lossy(data));
    let told = failure.message.ends_with(&format!("status {status}"));
    let message = if told { format!("the provider reported {name}") } else { failure.message };
    Failure { message, status: None, ..failure }
}
