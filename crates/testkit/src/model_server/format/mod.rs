//! The vendors' formats: one file each, pure. A format renders a turn as a stream (its [`Writer`]), as a whole, and says
//! what the vendor's errors look like.

mod anthropic;
mod bedrock;
mod completions;
mod google;
mod ollama;
mod responses;

use serde_json::Value;

use super::turn::{Block, Kind, Stop, Tokens};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Anthropic,
    Completions,
    Responses,
    Codex,
    Google,
    Ollama,
    Bedrock,
}

/// How an answer travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Stream,
    /// Google's stream for somebody who did not ask for server-sent events: one JSON list.
    List,
    Whole,
}

/// What every answer has besides its content.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Counts answers; vendors' ids are made of it.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) tokens: Tokens,
    /// Whether a stream was asked to say its usage, for vendors that want to be asked.
    pub(crate) wants_usage: bool,
}

/// When everything happened, for vendors that say it: the same in every run, so that whole answers can be compared.
pub(crate) const CREATED: u64 = 1_767_225_600;

/// The events of one step, each the bytes of one event.
pub(crate) type Events = Vec<Vec<u8>>;

/// Writes one answer as a stream. Blocks are closed when the next one begins or the answer ends.
pub(crate) trait Writer: Send {
    fn begin(&mut self) -> Events;
    fn text(&mut self, piece: &str) -> Events;
    /// Whether the same text twice makes the same event twice, once its block is open.
    fn repeats(&self) -> bool {
        true
    }
    fn thinking(&mut self, piece: &str) -> Events;
    /// Follows the thinking it belongs to.
    fn signature(&mut self, signature: &str) -> Events;
    fn redacted(&mut self, data: &str) -> Events;
    fn call(&mut self, id: &str, name: &str) -> Events;
    fn arguments(&mut self, piece: &str) -> Events;
    /// The current block is over.
    fn close(&mut self) -> Events;
    /// What is already out when the connection breaks inside a call, for vendors that send a call in one piece.
    fn cut(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn finish(&mut self, stop: &Stop) -> Events;
    fn error(&mut self, kind: Kind) -> Events;
}

impl Format {
    pub const ALL: [Format; 7] = [
        Format::Anthropic,
        Format::Completions,
        Format::Responses,
        Format::Codex,
        Format::Google,
        Format::Ollama,
        Format::Bedrock,
    ];

    pub(crate) fn writer(self, frame: Frame, delivery: Delivery) -> Box<dyn Writer> {
        match self {
            Self::Anthropic => Box::new(anthropic::Stream::new(frame)),
            Self::Completions => Box::new(completions::Stream::new(frame)),
            Self::Responses | Self::Codex => Box::new(responses::Stream::new(frame)),
            Self::Google => Box::new(google::Stream::new(frame, delivery)),
            Self::Ollama => Box::new(ollama::Stream::new(frame)),
            Self::Bedrock => Box::new(bedrock::Stream::new(frame)),
        }
    }

    pub(crate) fn whole(self, frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(frame, blocks, stop),
            Self::Completions => completions::whole(frame, blocks, stop),
            Self::Responses | Self::Codex => responses::whole(frame, blocks, stop),
            Self::Google => google::whole(frame, blocks, stop),
            Self::Ollama => ollama::whole(frame, blocks, stop),
            Self::Bedrock => bedrock::whole(frame, blocks, stop),
        }
    }

    pub(crate) fn refusal(self, kind: Kind) -> Refused {
        match self {
            Self::Anthropic => anthropic::refusal(kind),
            Self::Completions | Self::Responses => completions::refusal(kind),
            Self::Codex => responses::codex_refusal(kind),
            Self::Google => google::refusal(kind),
            Self::Ollama => ollama::refusal(kind),
            Self::Bedrock => bedrock::refusal(kind),
        }
    }

    pub(crate) fn content_type(self, delivery: Delivery) -> &'static str {
        match (delivery, self) {
            (Delivery::Whole | Delivery::List, _) => "application/json",
            (Delivery::Stream, Self::Ollama) => "application/x-ndjson",
            (Delivery::Stream, Self::Bedrock) => "application/vnd.amazon.eventstream",
            (Delivery::Stream, _) => "text/event-stream",
        }
    }
}

/// The vendor's error, with headers of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl Refused {
    fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }
}

/// One server-sent event with a name.
fn named_event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// One server-sent event without a name.
fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// Arguments as an object, for vendors that send them so; what is not JSON has no such form.
fn object(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::Object(serde_json::Map::new()))
}

/// What a vendor that sends calls in one piece has sent when it is cut inside the arguments. `event` has the
/// [`HOLE`] where they belong.
fn cut_at_hole(event: &[u8], json: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(event);
    let (before, _after) = text.split_once(&format!("\"{HOLE}\"")).expect("the event has a hole");
    format!("{before}{json}").into_bytes()
}

const HOLE: &str = "<arguments>";
