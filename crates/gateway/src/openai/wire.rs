//! The shapes of chat completions, as OpenAI's SDKs read them.

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_engine::Answer;
use tidegate_protocol::{StopReason, ToolCall, Usage};

/// The part of a request that means something here; whatever else it says is taken and ignored.
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(default)]
    pub(super) messages: Vec<Value>,
    pub(super) user: Option<String>,
    pub(super) n: Option<u32>,
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<Value>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

/// What every chunk and answer of one completion carries.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) id: String,
    /// Seconds since the epoch.
    pub(super) created: i64,
    pub(super) model: String,
}

fn tokens(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt(),
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    })
}

/// Why an answer ended.
fn finish_reason(answer: &Answer) -> &'static str {
    match answer.stop_reason {
        _ if !answer.handed.is_empty() => "tool_calls",
        StopReason::Length => "length",
        _ => "stop",
    }
}

/// A call as programs read it: its arguments are a text.
fn call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}})
}

pub(super) fn arguments(call: &ToolCall) -> String {
    match &call.args {
        Value::String(text) => text.clone(),
        args => args.to_string(),
    }
}

impl Frame {
    pub(super) fn completion(&self, answer: &Answer) -> Value {
        let mut message = json!({"role": "assistant", "content": answer.text, "refusal": null});
        if !answer.handed.is_empty() {
            message["tool_calls"] = answer.handed.iter().map(call).collect();
            if answer.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(answer),
            }],
            "usage": tokens(&answer.usage),
        })
    }
}

/// Writes the chunks of one stream. What is the same in all of them is written once.
pub(super) struct Writer {
    /// Up to the delta.
    head: String,
    /// Behind the delta, up to the reason.
    middle: &'static str,
    /// Behind the reason.
    tail: &'static str,
    frame: Frame,
}

impl Writer {
    pub(super) fn new(frame: Frame, include_usage: bool) -> Self {
        let Frame { id, created, model } = &frame;
        let head = format!(
            "data: {{\"id\":{},\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":{},\"choices\":[{{\"index\":0,\"delta\":",
            json!(id),
            json!(model),
        );
        let tail = if include_usage { "}],\"usage\":null}\n\n" } else { "}]}\n\n" };
        Self { head, middle: ",\"logprobs\":null,\"finish_reason\":", tail, frame }
    }

    fn chunk(&self, delta: &str, reason: &str) -> Bytes {
        let Self { head, middle, tail, .. } = self;
        Bytes::from([head.as_str(), delta, middle, reason, tail].concat())
    }

    pub(super) fn begin(&self) -> Bytes {
        self.chunk(r#"{"role":"assistant","content":""}"#, "null")
    }

    pub(super) fn text(&self, text: &str) -> Bytes {
        let text = Value::from(text).to_string();
        self.chunk(&format!("{{\"content\":{text}}}"), "null")
    }

    pub(super) fn calls(&self, calls: &[ToolCall]) -> Bytes {
        let calls = calls.iter().enumerate().map(|(index, one)| {
            let mut call = call(one);
            call["index"] = index.into();
            call
        });
        self.chunk(&json!({"tool_calls": calls.collect::<Vec<_>>()}).to_string(), "null")
    }

    pub(super) fn end(&self, answer: &Answer) -> Bytes {
        self.chunk("{}", &format!("\"{}\"", finish_reason(answer)))
    }

    /// The chunk after the last one, for those who asked for it.
    pub(super) fn usage(&self, usage: &Usage) -> Bytes {
        let Frame { id, created, model } = &self.frame;
        event(&json!({
            "id": id, "object": "chat.completion.chunk", "created": created, "model": model,
            "choices": [], "usage": tokens(usage),
        }))
    }
}

pub(super) fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
