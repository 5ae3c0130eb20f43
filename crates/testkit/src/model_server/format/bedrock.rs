//! Amazon Bedrock's Converse: its events are binary ([`eventstream`]), its errors are named in a header.

use serde_json::{Value, json};

use super::{Events, Frame, Refused, Writer, object};
use crate::model_server::eventstream;
use crate::model_server::turn::{Block, Kind, Stop};

pub(super) struct Stream {
    frame: Frame,
    index: usize,
    open: Option<Open>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Open {
    Text,
    Thinking,
    Call,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, index: 0, open: None }
    }

    /// Begins a block of another kind than the one that is open. Only calls have an event for it.
    fn open(&mut self, kind: Open) -> Events {
        let events = if self.open == Some(kind) { Events::new() } else { self.close() };
        self.open = Some(kind);
        events
    }

    fn delta(&self, delta: &Value) -> Vec<u8> {
        event("contentBlockDelta", &json!({"contentBlockIndex": self.index, "delta": delta}))
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        vec![event("messageStart", &json!({"role": "assistant"}))]
    }

    fn text(&mut self, piece: &str) -> Events {
        let mut events = self.open(Open::Text);
        events.push(self.delta(&json!({ "text": piece })));
        events
    }

    fn thinking(&mut self, piece: &str) -> Events {
        let mut events = self.open(Open::Thinking);
        events.push(self.delta(&json!({"reasoningContent": {"text": piece}})));
        events
    }

    fn signature(&mut self, signature: &str) -> Events {
        let mut events = vec![self.delta(&json!({"reasoningContent": {"signature": signature}}))];
        events.extend(self.close());
        events
    }

    fn redacted(&mut self, data: &str) -> Events {
        let mut events = self.close();
        self.open = Some(Open::Thinking);
        events.push(self.delta(&json!({"reasoningContent": {"redactedContent": data}})));
        events.extend(self.close());
        events
    }

    fn call(&mut self, id: &str, name: &str) -> Events {
        let mut events = self.close();
        self.open = Some(Open::Call);
        let start = json!({"toolUse": {"toolUseId": id, "name": name}});
        events.push(event("contentBlockStart", &json!({"contentBlockIndex": self.index, "start": start})));
        events
    }

    fn arguments(&mut self, piece: &str) -> Events {
        vec![self.delta(&json!({"toolUse": {"input": piece}}))]
    }

    fn close(&mut self) -> Events {
        if self.open.take().is_none() {
            return Events::new();
        }
        let data = json!({"contentBlockIndex": self.index});
        self.index += 1;
        vec![event("contentBlockStop", &data)]
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let mut events = self.close();
        events.push(event("messageStop", &json!({"stopReason": stop_reason(stop)})));
        events.push(event("metadata", &json!({"usage": usage(&self.frame), "metrics": {"latencyMs": 5}})));
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        let (_, name, message) = told(kind);
        // Inside a stream the same names begin with a small letter.
        let name = format!("{}{}", name[..1].to_lowercase(), &name[1..]);
        vec![eventstream::message("exception", &name, json!({ "message": message }).to_string().as_bytes())]
    }
}

fn event(name: &str, data: &Value) -> Vec<u8> {
    eventstream::message("event", name, data.to_string().as_bytes())
}

fn usage(frame: &Frame) -> Value {
    let tokens = frame.tokens;
    json!({
        "inputTokens": tokens.input, "outputTokens": tokens.output, "totalTokens": tokens.total(),
        "cacheReadInputTokens": tokens.cache_read, "cacheWriteInputTokens": tokens.cache_write,
    })
}

fn stop_reason(stop: &Stop) -> &str {
    match stop {
        Stop::Done => "end_turn",
        Stop::Length => "max_tokens",
        Stop::Tools => "tool_use",
        Stop::Refused => "content_filtered",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let content: Vec<_> = blocks.iter().map(block).collect();
    json!({
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop_reason(stop),
        "usage": usage(frame), "metrics": {"latencyMs": 5},
    })
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "text": text }),
        Block::Thinking { text, signature } => {
            json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
        }
        Block::Redacted(data) => json!({"reasoningContent": {"redactedContent": data}}),
        Block::Call { id, name, json } => {
            json!({"toolUse": {"toolUseId": id, "name": name, "input": object(json)}})
        }
    }
}

fn told(kind: Kind) -> (u16, &'static str, &'static str) {
    match kind {
        Kind::Auth => {
            (403, "UnrecognizedClientException", "The security token included in the request is invalid.")
        }
        Kind::Forbidden => {
            (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.")
        }
        Kind::Billing => (
            402,
            "AccessDeniedException",
            "INVALID_PAYMENT_INSTRUMENT: A valid payment instrument is required.",
        ),
        Kind::RateLimit => {
            (429, "ThrottlingException", "Too many requests, please wait before trying again.")
        }
        Kind::Overloaded => {
            (503, "ServiceUnavailableException", "Bedrock is unable to process your request.")
        }
        Kind::Server => {
            (500, "InternalServerException", "The system encountered an unexpected error during processing.")
        }
        Kind::BadRequest => {
            (400, "ValidationException", "The text field in the ContentBlock object is blank.")
        }
        Kind::NoSuchModel => (404, "ResourceNotFoundException", "The specified model was not found."),
        Kind::TooLong => (400, "ValidationException", "Input is too long for requested model."),
    }
}

pub(super) fn refusal(kind: Kind) -> Refused {
    let (status, name, message) = told(kind);
    let mut refused = Refused::new(status, json!({ "message": message }));
    refused.headers.push(("x-amzn-errortype", name.to_owned()));
    refused
}
