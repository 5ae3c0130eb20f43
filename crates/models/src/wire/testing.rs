//! What the tests of formats share: a model, a conversation, and answers read in every way they can arrive.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

use super::{Access, Prepared, Target, Wire};
use crate::catalogue::{Api, Compat, ModelInfo};
use crate::failure::Failure;
use crate::reading::Reading;
use crate::request::{Request, ToolSpec};
use crate::stream::{BlockKind, ModelEvent};

pub(crate) fn model(api: Api) -> ModelInfo {
    ModelInfo {
        provider: "someone".to_owned(),
        id: "some-model".to_owned(),
        name: "Some Model".to_owned(),
        api,
        base_url: "https://models.example".to_owned(),
        context_window: 200_000,
        max_tokens: 64_000,
        reasoning: false,
        images: true,
        tools: true,
        price: None,
        headers: Vec::new(),
        compat: Compat::default(),
    }
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request { messages, ..Request::default() }
}

pub(crate) fn assistant(model: &ModelInfo, content: Vec<Block>, stop_reason: StopReason) -> Message {
    Message::Assistant {
        content,
        origin: Origin {
            api: model.api.as_str().to_owned(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            profile_id: None,
            route: model.provider.clone(),
            stage: String::new(),
        },
        usage: Usage::default(),
        stop_reason,
        error_message: None,
        timestamp: 2,
    }
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Block {
    Block::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments, thought_signature: None }
}

pub(crate) fn thought(thinking: &str, signature: Option<&str>) -> Block {
    let thinking_signature = signature.map(str::to_owned);
    Block::Thinking { thinking: thinking.to_owned(), thinking_signature, redacted: false }
}

pub(crate) fn image(data: &str) -> Block {
    Block::Image { data: data.to_owned(), mime_type: "image/png".to_owned() }
}

pub(crate) fn result(id: &str, name: &str, content: Vec<Block>, is_error: bool) -> Message {
    Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        content,
        is_error,
        details: None,
        timestamp: 3,
    }
}

pub(crate) fn weather() -> ToolSpec {
    ToolSpec {
        name: "weather".to_owned(),
        description: "Tells the weather.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
    }
}

/// A tool whose name no vendor takes as it is; answers are read as if it had been offered.
pub(crate) fn dotted() -> ToolSpec {
    ToolSpec { name: "files.read".to_owned(), ..weather() }
}

pub(crate) fn prepare(wire: &dyn Wire, model: &ModelInfo, access: &Access, request: &Request) -> Prepared {
    wire.prepare(request, &Target { model, access, now_ms: 0 }).unwrap()
}

/// The body of a request.
pub(crate) fn body(wire: &dyn Wire, model: &ModelInfo, request: &Request) -> Value {
    serde_json::from_slice(&prepare(wire, model, &Access::Open, request).body).unwrap()
}

/// The headers of a request, in the order of their names.
pub(crate) fn headers(prepared: &Prepared) -> Vec<(&str, &str)> {
    let mut headers: Vec<_> = prepared.headers.iter().map(|(name, value)| (name, value.expose())).collect();
    headers.sort_unstable();
    headers
}

fn read_pieces<'a>(
    wire: &dyn Wire,
    model: &ModelInfo,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<ModelEvent> {
    let asked = Request { tools: vec![dotted()], ..Request::default() };
    let mut reading = Reading::new(wire, model, &asked);
    for piece in pieces {
        reading.feed(piece);
    }
    reading.end();
    std::iter::from_fn(|| reading.next_event()).collect()
}

/// The events of a body that arrives whole.
pub(crate) fn read(wire: &dyn Wire, model: &ModelInfo, body: &[u8]) -> Vec<ModelEvent> {
    read_pieces(wire, model, [body])
}

/// The events of a body, which are the same wherever it is cut into pieces and with either line end.
pub(crate) fn read_split(wire: &dyn Wire, model: &ModelInfo, body: &str) -> Vec<ModelEvent> {
    let whole = read(wire, model, body.as_bytes());
    for body in [body.to_owned(), body.replace('\n', "\r\n")] {
        let bytes = body.as_bytes();
        assert_eq!(read_pieces(wire, model, bytes.chunks(1)), whole, "byte by byte");
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(read_pieces(wire, model, [head, tail]), whole, "cut at {at}");
        }
    }
    whole
}

pub(crate) fn start(index: usize, kind: BlockKind) -> ModelEvent {
    ModelEvent::BlockStart { index, kind }
}

pub(crate) fn start_call(index: usize, id: &str, name: &str) -> ModelEvent {
    start(index, BlockKind::ToolCall { id: id.to_owned(), name: name.to_owned() })
}

pub(crate) fn text(index: usize, text: &str) -> ModelEvent {
    ModelEvent::TextDelta { index, text: text.to_owned() }
}

pub(crate) fn thinking(index: usize, text: &str) -> ModelEvent {
    ModelEvent::ThinkingDelta { index, text: text.to_owned() }
}

pub(crate) fn arguments(index: usize, json: &str) -> ModelEvent {
    ModelEvent::ArgumentsDelta { index, json: json.to_owned() }
}

pub(crate) fn end(index: usize, block: Block) -> ModelEvent {
    ModelEvent::BlockEnd { index, block }
}

pub(crate) fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> ModelEvent {
    ModelEvent::Usage(Usage { input, output, cache_read, cache_write, ..Usage::default() })
}

/// The blocks that were completed.
pub(crate) fn blocks(events: &[ModelEvent]) -> Vec<Block> {
    let block = |event: &ModelEvent| match event {
        ModelEvent::BlockEnd { block, .. } => Some(block.clone()),
        _ => None,
    };
    events.iter().filter_map(block).collect()
}

pub(crate) fn failure(events: &[ModelEvent]) -> Failure {
    match events.last() {
        Some(ModelEvent::Failed(failure)) => failure.clone(),
        other => panic!("the answer ended with {other:?}"),
    }
}
