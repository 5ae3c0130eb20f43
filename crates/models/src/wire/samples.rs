//! What the tests of several formats begin with: a model, a conversation, and ways to read an answer.

use serde_json::{Value, json};
use tidegate_net::Headers;
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

use super::{Access, Prepared, Target, Wire};
use crate::catalogue::{Api, Compat, ModelInfo};
use crate::failure::FailureKind;
use crate::reading::Reading;
use crate::request::{Request, ToolSpec};
use crate::stream::ModelEvent;

pub(crate) fn model(api: Api, id: &str, base_url: &str) -> ModelInfo {
    ModelInfo {
        provider: "sample".to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        api,
        base_url: base_url.to_owned(),
        context_window: 100_000,
        max_tokens: 64_000,
        reasoning: true,
        images: true,
        tools: true,
        price: None,
        headers: vec![("X-Extra".to_owned(), "yes".to_owned().into())],
        compat: Compat::default(),
    }
}

pub(crate) fn ask(text: &str) -> Request {
    Request { messages: vec![Message::user(text, 0)], ..Request::default() }
}

pub(crate) fn look() -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]});
    ToolSpec { name: "look".to_owned(), description: "Looks.".to_owned(), parameters }
}

/// An answer of the sample provider's model.
pub(crate) fn answer(model: &ModelInfo, content: Vec<Block>, stop_reason: StopReason) -> Message {
    let origin = Origin {
        api: model.api.as_str().to_owned(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        profile_id: None,
        route: String::new(),
        stage: String::new(),
    };
    Message::Assistant {
        content,
        origin,
        usage: Usage::default(),
        stop_reason,
        error_message: None,
        timestamp: 0,
    }
}

pub(crate) fn result(id: &str, content: Vec<Block>, is_error: bool) -> Message {
    let (tool_call_id, tool_name) = (id.to_owned(), "look".to_owned());
    Message::ToolResult { tool_call_id, tool_name, content, is_error, details: None, timestamp: 0 }
}

pub(crate) fn call(id: &str, arguments: Value, signature: Option<&str>) -> Block {
    let thought_signature = signature.map(str::to_owned);
    Block::ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments, thought_signature }
}

pub(crate) fn thought(text: &str, signature: Option<&str>) -> Block {
    let thinking_signature = signature.map(str::to_owned);
    Block::Thinking { thinking: text.to_owned(), thinking_signature, redacted: false }
}

pub(crate) fn picture() -> Block {
    Block::Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() }
}

pub(crate) fn prepare(wire: &dyn Wire, request: &Request, model: &ModelInfo, access: &Access) -> Prepared {
    wire.prepare(request, &Target { model, access, now_ms: 1_440_938_160_000 }).unwrap()
}

pub(crate) fn body(wire: &dyn Wire, request: &Request, model: &ModelInfo) -> Value {
    serde_json::from_slice(&prepare(wire, request, model, &Access::Open).body).unwrap()
}

pub(crate) fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.get(name).map(tidegate_secrets::Secret::expose)
}

fn feed<'a>(
    wire: &dyn Wire,
    model: &ModelInfo,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<ModelEvent> {
    let mut reading = Reading::new(wire, model, &Request::default());
    chunks.into_iter().for_each(|chunk| reading.feed(chunk));
    reading.end();
    std::iter::from_fn(|| reading.next_event()).collect()
}

/// The events of an answer, which are the same wherever it is cut.
pub(crate) fn read(wire: &dyn Wire, model: &ModelInfo, bytes: &[u8]) -> Vec<ModelEvent> {
    let whole = feed(wire, model, [bytes]);
    assert_eq!(feed(wire, model, bytes.chunks(1)), whole);
    for at in 0..bytes.len() {
        assert_eq!(feed(wire, model, [&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
    }
    whole
}

/// The blocks that ended.
pub(crate) fn blocks(events: &[ModelEvent]) -> Vec<Block> {
    let ends = events.iter().filter_map(|event| match event {
        ModelEvent::BlockEnd { block, .. } => Some(block.clone()),
        _ => None,
    });
    ends.collect()
}

/// How the answer failed.
pub(crate) fn failure(events: &[ModelEvent]) -> Option<FailureKind> {
    match events.last() {
        Some(ModelEvent::Failed(failure)) => Some(failure.kind),
        _ => None,
    }
}
