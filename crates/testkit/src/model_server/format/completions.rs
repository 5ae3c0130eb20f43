//! OpenAI's Chat Completions, with what its many imitators add: `reasoning_content`, and `reasoning_details` for what
//! nobody may read.

use serde_json::{Value, json};

use super::{CREATED, Events, Frame, Refused, Writer, event};
use crate::model_server::turn::{Block, Kind, Stop};

pub(super) struct Stream {
    frame: Frame,
    calls: usize,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, calls: 0 }
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> Vec<u8> {
        let mut chunk = json!({
            "id": id(&self.frame), "object": "chat.completion.chunk", "created": CREATED, "model": self.frame.model,
            "service_tier": "default", "system_fingerprint": null, "choices": choices,
        });
        if self.frame.wants_usage {
            chunk["usage"] = usage.clone();
        }
        event(&chunk)
    }

    fn delta(&self, delta: &Value) -> Events {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]);
        vec![self.chunk(&choices, &Value::Null)]
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        self.delta(&json!({"role": "assistant", "content": "", "refusal": null}))
    }

    fn text(&mut self, piece: &str) -> Events {
        self.delta(&json!({"content": piece}))
    }

    fn thinking(&mut self, piece: &str) -> Events {
        self.delta(&json!({"content": null, "reasoning_content": piece}))
    }

    fn signature(&mut self, _signature: &str) -> Events {
        Events::new()
    }

    fn redacted(&mut self, data: &str) -> Events {
        self.delta(&json!({"reasoning_details": [encrypted(data)]}))
    }

    fn call(&mut self, id: &str, name: &str) -> Events {
        let function = json!({"name": name, "arguments": ""});
        let call = json!({"index": self.calls, "id": id, "type": "function", "function": function});
        self.calls += 1;
        self.delta(&json!({"tool_calls": [call]}))
    }

    fn arguments(&mut self, piece: &str) -> Events {
        let call = json!({"index": self.calls - 1, "function": {"arguments": piece}});
        self.delta(&json!({"tool_calls": [call]}))
    }

    fn close(&mut self) -> Events {
        Events::new()
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let last = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(stop)}]);
        let mut events = vec![self.chunk(&last, &Value::Null)];
        if self.frame.wants_usage {
            events.push(self.chunk(&json!([]), &usage(&self.frame)));
        }
        events.push(b"data: [DONE]\n\n".to_vec());
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        vec![event(&refusal(kind).body)]
    }
}

fn id(frame: &Frame) -> String {
    format!("chatcmpl-{:04}", frame.number)
}

fn encrypted(data: &str) -> Value {
    json!({"type": "reasoning.encrypted", "data": data, "format": "unknown", "index": 0})
}

fn usage(frame: &Frame) -> Value {
    let tokens = frame.tokens;
    json!({
        "prompt_tokens": tokens.prompt(), "completion_tokens": tokens.output, "total_tokens": tokens.total(),
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn finish_reason(stop: &Stop) -> &str {
    match stop {
        Stop::Done => "stop",
        Stop::Length => "length",
        Stop::Tools => "tool_calls",
        Stop::Refused => "content_filter",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let (mut text, mut thinking) = (String::new(), String::new());
    let (mut calls, mut details) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(more) => text.push_str(more),
            Block::Thinking { text, .. } => thinking.push_str(text),
            Block::Redacted(data) => details.push(encrypted(data)),
            Block::Call { id, name, json } => calls
                .push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": json}})),
        }
    }
    for (field, value, there) in [
        ("content", Value::from(text.as_str()), !text.is_empty()),
        ("reasoning_content", Value::from(thinking.as_str()), !thinking.is_empty()),
        ("tool_calls", Value::from(calls.clone()), !calls.is_empty()),
        ("reasoning_details", Value::from(details.clone()), !details.is_empty()),
    ] {
        if there {
            message[field] = value;
        }
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(stop)});
    json!({
        "id": id(frame), "object": "chat.completion", "created": CREATED, "model": frame.model, "choices": [choice],
        "usage": usage(frame), "service_tier": "default", "system_fingerprint": null,
    })
}

pub(super) fn refusal(kind: Kind) -> Refused {
    let (status, name, code, message) = match kind {
        Kind::Auth => (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
        Kind::Forbidden => (
            403,
            "invalid_request_error",
            "unsupported_country_region_territory",
            "Country, region, or territory not supported",
        ),
        Kind::Billing => (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Kind::RateLimit => (
            429,
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached for requests. Please try again in 7s.",
        ),
        Kind::Overloaded => {
            (503, "service_unavailable_error", "server_is_overloaded", "The server is overloaded.")
        }
        Kind::Server => (
            500,
            "server_error",
            "server_error",
            "The server had an error while processing your request. Sorry about that!",
        ),
        Kind::BadRequest => (400, "invalid_request_error", "invalid_value", "Invalid value for 'messages'."),
        Kind::NoSuchModel => (
            404,
            "invalid_request_error",
            "model_not_found",
            "The model `no-such-model` does not exist or you do not have access to it.",
        ),
        Kind::TooLong => (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens.",
        ),
    };
    let error = json!({"message": message, "type": name, "param": null, "code": code});
    Refused::new(status, json!({ "error": error }))
}
