//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{Events, Frame, Refused, Writer, named_event, object};
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
    Redacted,
    Call,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, index: 0, open: None }
    }

    /// Starts a block unless one of that kind is open; a call never continues another.
    fn open(&mut self, kind: Open, block: &Value) -> Events {
        if self.open == Some(kind) && kind != Open::Call {
            return Events::new();
        }
        let mut events = self.close();
        self.open = Some(kind);
        events.push(named_event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": self.index, "content_block": block}),
        ));
        events
    }

    fn delta(&self, delta: &Value) -> Vec<u8> {
        let data = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        named_event("content_block_delta", &data)
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        let mut usage = usage(&self.frame);
        usage["output_tokens"] = 1.into();
        let message = json!({
            "id": id(&self.frame), "type": "message", "role": "assistant", "model": self.frame.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        vec![
            named_event("message_start", &json!({"type": "message_start", "message": message})),
            named_event("ping", &json!({"type": "ping"})),
        ]
    }

    fn text(&mut self, piece: &str) -> Events {
        let mut events = self.open(Open::Text, &json!({"type": "text", "text": ""}));
        events.push(self.delta(&json!({"type": "text_delta", "text": piece})));
        events
    }

    fn thinking(&mut self, piece: &str) -> Events {
        let mut events =
            self.open(Open::Thinking, &json!({"type": "thinking", "thinking": "", "signature": ""}));
        events.push(self.delta(&json!({"type": "thinking_delta", "thinking": piece})));
        events
    }

    fn signature(&mut self, signature: &str) -> Events {
        let mut events = vec![self.delta(&json!({"type": "signature_delta", "signature": signature}))];
        events.extend(self.close());
        events
    }

    fn redacted(&mut self, data: &str) -> Events {
        let mut events = self.open(Open::Redacted, &json!({"type": "redacted_thinking", "data": data}));
        events.extend(self.close());
        events
    }

    fn call(&mut self, id: &str, name: &str) -> Events {
        self.open(Open::Call, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
    }

    fn arguments(&mut self, piece: &str) -> Events {
        vec![self.delta(&json!({"type": "input_json_delta", "partial_json": piece}))]
    }

    fn close(&mut self) -> Events {
        if self.open.take().is_none() {
            return Events::new();
        }
        let data = json!({"type": "content_block_stop", "index": self.index});
        self.index += 1;
        vec![named_event("content_block_stop", &data)]
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let mut events = self.close();
        let delta = json!({"stop_reason": stop_reason(stop), "stop_sequence": null});
        events.push(named_event(
            "message_delta",
            &json!({"type": "message_delta", "delta": delta, "usage": usage(&self.frame)}),
        ));
        events.push(named_event("message_stop", &json!({"type": "message_stop"})));
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        vec![named_event("error", &refusal(kind).body)]
    }
}

fn id(frame: &Frame) -> String {
    format!("msg_{:04}", frame.number)
}

fn usage(frame: &Frame) -> Value {
    let tokens = frame.tokens;
    json!({
        "input_tokens": tokens.input, "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read, "output_tokens": tokens.output,
    })
}

fn stop_reason(stop: &Stop) -> &str {
    match stop {
        Stop::Done => "end_turn",
        Stop::Length => "max_tokens",
        Stop::Tools => "tool_use",
        Stop::Refused => "refusal",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let content: Vec<_> = blocks.iter().map(block).collect();
    json!({
        "id": id(frame), "type": "message", "role": "assistant", "model": frame.model, "content": content,
        "stop_reason": stop_reason(stop), "stop_sequence": null, "usage": usage(frame),
    })
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        Block::Redacted(data) => json!({"type": "redacted_thinking", "data": data}),
        Block::Call { id, name, json } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": object(json)})
        }
    }
}

pub(super) fn refusal(kind: Kind) -> Refused {
    let (status, name, message) = match kind {
        Kind::Auth => (401, "authentication_error", "invalid x-api-key"),
        Kind::Forbidden => {
            (403, "permission_error", "Your API key does not have permission to use the specified resource.")
        }
        Kind::Billing => (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or \
             purchase credits.",
        ),
        Kind::RateLimit => {
            (429, "rate_limit_error", "This request would exceed your organization's rate limit.")
        }
        Kind::Overloaded => (529, "overloaded_error", "Overloaded"),
        Kind::Server => (500, "api_error", "Internal server error"),
        Kind::BadRequest => (400, "invalid_request_error", "messages: at least one message is required"),
        Kind::NoSuchModel => (404, "not_found_error", "model: no-such-model"),
        Kind::TooLong => (400, "invalid_request_error", "prompt is too long: 214013 tokens > 200000 maximum"),
    };
    let error = json!({"type": name, "message": message});
    Refused::new(status, json!({"type": "error", "error": error, "request_id": "req_played"}))
}
