//! What tests of this family share: a model, an answer told in frames, and the events read out of it.

use serde_json::Value;
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};
use tidegate_secrets::Secret;

use crate::catalogue::{Api, Compat, ModelInfo};
use crate::failure::Failure;
use crate::reading::Reading;
use crate::request::Request;
use crate::stream::ModelEvent;
use crate::wire::{Access, Prepared, Target, Wire};

pub(in crate::wire) fn model(provider: &str, id: &str) -> ModelInfo {
    ModelInfo {
        provider: provider.into(),
        id: id.into(),
        name: id.into(),
        api: Api::OpenaiResponses,
        base_url: "https://models.example/v1".into(),
        context_window: 100_000,
        max_tokens: 10_000,
        reasoning: true,
        images: true,
        tools: true,
        price: None,
        headers: Vec::new(),
        compat: Compat::default(),
    }
}

/// What the model said in this conversation before.
pub(in crate::wire) fn said(model: &ModelInfo, content: Vec<Block>) -> Message {
    let origin = Origin {
        api: model.api.as_str().into(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        profile_id: None,
        route: model.provider.clone(),
        stage: String::new(),
    };
    Message::Assistant {
        content,
        origin,
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: 2,
    }
}

pub(in crate::wire) fn call(id: &str, name: &str, arguments: Value) -> Block {
    Block::ToolCall { id: id.into(), name: name.into(), arguments, thought_signature: None }
}

pub(in crate::wire) fn result(id: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "look".into(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 3,
    }
}

pub(in crate::wire) fn prepared(
    wire: &dyn Wire,
    request: &Request,
    model: &ModelInfo,
) -> Result<Prepared, Failure> {
    let access = Access::Login { token: Secret::new("a token"), account_id: Some("acc".into()) };
    wire.prepare(request, &Target { model, access: &access, now_ms: 0 })
}

/// The request's body.
pub(in crate::wire) fn body(wire: &dyn Wire, request: &Request, model: &ModelInfo) -> Value {
    serde_json::from_slice(&prepared(wire, request, model).unwrap().body).unwrap()
}

/// Events as a server sends them, each named after its `type`.
pub(in crate::wire) fn sse(events: &[Value]) -> String {
    let frame = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().map(frame).collect::<Vec<_>>().concat()
}

/// What is read, the bytes given in pieces that end at these places.
fn read_cut(wire: &dyn Wire, request: &Request, answer: &[u8], cuts: &[usize]) -> Vec<ModelEvent> {
    let mut reading = Reading::new(wire, &model("openai", "gpt-5.2"), request);
    let mut begin = 0;
    for end in cuts.iter().copied().chain([answer.len()]) {
        reading.feed(&answer[begin..end]);
        begin = end;
    }
    reading.end();
    std::iter::from_fn(|| reading.next_event()).collect()
}

/// What is read, in one piece and byte by byte.
pub(in crate::wire) fn read(wire: &dyn Wire, request: &Request, answer: &str) -> Vec<ModelEvent> {
    let answer = answer.as_bytes();
    let whole = read_cut(wire, request, answer, &[]);
    let everywhere: Vec<usize> = (0..answer.len()).collect();
    assert_eq!(read_cut(wire, request, answer, &everywhere), whole, "byte by byte");
    whole
}

/// As [`read`], and in two pieces cut at every byte.
pub(in crate::wire) fn read_however_cut(wire: &dyn Wire, request: &Request, answer: &str) -> Vec<ModelEvent> {
    let whole = read(wire, request, answer);
    for cut in 0..=answer.len() {
        assert_eq!(read_cut(wire, request, answer.as_bytes(), &[cut]), whole, "cut at {cut}");
    }
    whole
}

/// The blocks that came to their end, and the last event.
pub(in crate::wire) fn outcome(events: &[ModelEvent]) -> (Vec<Block>, ModelEvent) {
    let block = |event: &ModelEvent| match event {
        ModelEvent::BlockEnd { block, .. } => Some(block.clone()),
        _ => None,
    };
    (events.iter().filter_map(block).collect(), events.last().unwrap().clone())
}
