//! The stream of an answer.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_protocol::{StopReason, Usage};

use super::super::borrowed::{Text, unreadable};
use super::super::{Decoder, Emit, Key, Names};
use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::stream::BlockKind;

/// Reads one answer. Blocks are told apart by the index Anthropic gives them.
#[derive(Default)]
pub(super) struct Messages {
    names: Names,
    /// The indexes that were begun: one that comes again is a repetition, not another block.
    begun: Vec<Key>,
    /// Arguments that came with the beginning of a call, as servers send them that do not stream arguments.
    given: Option<(Key, String)>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    index: Option<Key>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<Begun<'a>>,
    message: Option<Head>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    #[serde(borrow)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Begun<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    #[serde(borrow)]
    data: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    input: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Head {
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the vendor's names")]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

/// The kind alone, for events that are not what they were when this was written.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
}

impl Decoder for Messages {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        if frame.data.trim_ascii().is_empty() {
            return Ok(());
        }
        // An error is looked at before it is read: its form is the vendor's, or that of whatever stands before it.
        if frame.event == "error" {
            return Err(refused(frame.data));
        }
        let event: Event<'_> = match serde_json::from_slice(frame.data) {
            Ok(event) => event,
            Err(_) if is_unknown(frame.data) => return Ok(()),
            Err(error) => return Err(unreadable(&error)),
        };
        match (&*event.kind, event.index) {
            ("content_block_delta", Some(index)) => {
                if let Some(delta) = event.delta {
                    continue_block(index, &delta, emit);
                }
            }
            ("content_block_start", Some(index)) => {
                if let Some(block) = event.content_block {
                    self.begin_block(index, &block, emit);
                }
            }
            ("content_block_stop", Some(index)) => self.end_block(index, emit),
            ("message_start", _) => {
                if let Some(tokens) = event.message.and_then(|message| message.usage) {
                    refine(&tokens, emit);
                }
            }
            ("message_delta", _) => {
                if let Some(tokens) = &event.usage {
                    refine(tokens, emit);
                }
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    emit.done(stop_reason(&reason)?);
                }
            }
            ("message_stop", _) => emit.done(StopReason::Stop),
            ("error", _) => return Err(refused(frame.data)),
            _ => {}
        }
        Ok(())
    }
}

impl Messages {
    pub(super) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    fn begin_block(&mut self, index: Key, block: &Begun<'_>, emit: &mut Emit) {
        if self.begun.contains(&index) {
            return;
        }
        self.begun.push(index);
        let text = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        match &*block.kind {
            "text" => {
                emit.open(index, BlockKind::Text);
                emit.push(index, &text(&block.text));
            }
            "thinking" => {
                emit.open(index, BlockKind::Thinking);
                emit.push(index, &text(&block.thinking));
                if let Some(signature) = block.signature.as_deref().filter(|signature| !signature.is_empty())
                {
                    emit.sign(index, signature);
                }
            }
            "redacted_thinking" => {
                emit.open(index, BlockKind::Thinking);
                emit.redact(index);
                emit.sign(index, text(&block.data));
            }
            "tool_use" => {
                let id = block.id.as_deref().filter(|id| !id.is_empty());
                // Those who copy the format may forget the id; a result needs one.
                let id = id.map_or_else(|| format!("call_{index}"), str::to_owned);
                let name = self.names.from_wire(block.name.as_deref().unwrap_or_default()).into_owned();
                emit.open(index, BlockKind::ToolCall { id, name });
                let input = block.input.as_ref().filter(|input| !input.is_empty());
                self.given = input.and_then(|input| Some((index, serde_json::to_string(input).ok()?)));
            }
            // What the server did itself, such as a search.
            _ => {}
        }
    }

    fn end_block(&mut self, index: Key, emit: &mut Emit) {
        let given = self.given.take_if(|(key, _)| *key == index);
        let Some(text) = emit.text(index) else { return };
        if let Some((_, json)) = given.filter(|_| text.is_empty()) {
            emit.push(index, &json);
        }
        emit.ended(index);
    }
}

fn continue_block(index: Key, delta: &Delta<'_>, emit: &mut Emit) {
    // Each kind has its own field, so the kind need not be looked at, except where it is new to us.
    if let Some("text_delta" | "thinking_delta" | "input_json_delta" | "signature_delta") =
        delta.kind.as_deref()
    {
        let more = delta.text.as_deref().or(delta.thinking.as_deref()).or(delta.partial_json.as_deref());
        emit.push(index, more.unwrap_or_default());
        if let Some(signature) = delta.signature.as_deref() {
            emit.sign_more(index, signature);
        }
    }
}

fn refine(tokens: &Tokens, emit: &mut Emit) {
    let known = emit.usage_so_far();
    emit.usage(Usage {
        input: tokens.input_tokens.unwrap_or(known.input),
        output: tokens.output_tokens.unwrap_or(known.output),
        cache_read: tokens.cache_read_input_tokens.unwrap_or(known.cache_read),
        cache_write: tokens.cache_creation_input_tokens.unwrap_or(known.cache_write),
        ..known
    });
}

fn stop_reason(reason: &str) -> Result<StopReason, Failure> {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_use" => Ok(StopReason::ToolUse),
        "refusal" | "sensitive" => {
            Err(Failure::new(FailureKind::Refused, "the model declined to answer this conversation"))
        }
        // `end_turn`, `stop_sequence`, `pause_turn`, and what is to come.
        _ => Ok(StopReason::Stop),
    }
}

fn refused(data: &[u8]) -> Failure {
    classify(None, &String::from_utf8_lossy(data))
}

/// Whether the frame is JSON of a kind that nobody here reads.
fn is_unknown(data: &[u8]) -> bool {
    const READ: [&str; 7] = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    ];
    serde_json::from_slice::<Kind<'_>>(data).is_ok_and(|event| !READ.contains(&&*event.kind))
}
