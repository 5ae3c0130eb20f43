//! The shapes of OpenAI's interface, as its SDKs read them.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_protocol::{ErrorBody, Usage};

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
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({"prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output})
}

impl Frame {
    pub(super) fn completion(&self, text: &str, usage: &Usage) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": tokens(usage),
        })
    }

    pub(super) fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}],
        })
    }

    /// The chunk after the last one, for those who asked for it.
    pub(super) fn usage(&self, usage: &Usage) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [], "usage": tokens(usage),
        })
    }
}

/// An error as the SDKs expect it.
pub(crate) fn error_body(status: StatusCode, body: &ErrorBody) -> Value {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"error": {"message": body.message, "type": kind, "param": null, "code": body.code}})
}
