//! Google's Generative Language: whole parts in chunks, calls in one piece, signatures on the part after the thinking.

use serde_json::{Value, json};

use super::{Delivery, Events, Frame, HOLE, Refused, Writer, cut_at_hole, object};
use crate::model_server::turn::{Block, Kind, Stop};

pub(super) struct Stream {
    frame: Frame,
    delivery: Delivery,
    first: bool,
    /// Of thinking that is over; it goes out with the next part.
    signature: Option<String>,
    /// A call that is not out yet.
    call: Option<(String, String, String)>,
}

impl Stream {
    pub(super) fn new(frame: Frame, delivery: Delivery) -> Self {
        Self { frame, delivery, first: true, signature: None, call: None }
    }

    fn write(&mut self, chunk: &Value) -> Vec<u8> {
        if self.delivery == Delivery::Stream {
            return format!("data: {chunk}\r\n\r\n").into_bytes();
        }
        let before = if std::mem::take(&mut self.first) { "[" } else { ",\r\n" };
        format!("{before}{chunk}").into_bytes()
    }

    fn part(&mut self, mut part: Value) -> Vec<u8> {
        if part["thought"] != true
            && let Some(signature) = self.signature.take()
        {
            part["thoughtSignature"] = signature.into();
        }
        let chunk = chunk(&self.frame, &[part], None);
        self.write(&chunk)
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        Events::new()
    }

    fn text(&mut self, piece: &str) -> Events {
        let mut events = self.close();
        events.push(self.part(json!({ "text": piece })));
        events
    }

    fn thinking(&mut self, piece: &str) -> Events {
        let mut events = self.close();
        events.push(self.part(json!({"text": piece, "thought": true})));
        events
    }

    fn signature(&mut self, signature: &str) -> Events {
        self.signature = Some(signature.to_owned());
        Events::new()
    }

    fn redacted(&mut self, data: &str) -> Events {
        self.signature = Some(data.to_owned());
        Events::new()
    }

    fn call(&mut self, id: &str, name: &str) -> Events {
        let events = self.close();
        self.call = Some((id.to_owned(), name.to_owned(), String::new()));
        events
    }

    fn arguments(&mut self, piece: &str) -> Events {
        if let Some((_, _, json)) = &mut self.call {
            json.push_str(piece);
        }
        Events::new()
    }

    fn close(&mut self) -> Events {
        let call = self.call.take();
        call.into_iter().map(|(id, name, json)| self.part(call_part(&id, &name, &object(&json)))).collect()
    }

    fn cut(&mut self) -> Vec<u8> {
        let Some((id, name, json)) = self.call.take() else { return Vec::new() };
        cut_at_hole(&self.part(call_part(&id, &name, &HOLE.into())), &json)
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let mut events = self.close();
        let last = self.signature.take();
        let mut part = json!({"text": ""});
        if let Some(signature) = last {
            part["thoughtSignature"] = signature.into();
        }
        let last = chunk(&self.frame, &[part], Some(finish_reason(stop)));
        events.push(self.write(&last));
        if self.delivery == Delivery::List {
            events.push(b"]".to_vec());
        }
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        let error = refusal(kind).body;
        let mut events = vec![self.write(&error)];
        if self.delivery == Delivery::List {
            events.push(b"]".to_vec());
        }
        events
    }
}

fn call_part(id: &str, name: &str, arguments: &Value) -> Value {
    let mut call = json!({"name": name, "args": arguments});
    if !id.is_empty() {
        call["id"] = id.into();
    }
    json!({ "functionCall": call })
}

/// One answer of the format, or one piece of a stream; the usage is in each, as the vendor has it.
fn chunk(frame: &Frame, parts: &[Value], finish: Option<&str>) -> Value {
    let tokens = frame.tokens;
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let mut usage = json!({
        "promptTokenCount": tokens.prompt(), "candidatesTokenCount": tokens.output, "totalTokenCount": tokens.total(),
    });
    if tokens.cache_read > 0 {
        usage["cachedContentTokenCount"] = tokens.cache_read.into();
    }
    json!({
        "candidates": [candidate], "usageMetadata": usage, "modelVersion": frame.model,
        "responseId": format!("played-{:04}", frame.number),
    })
}

fn finish_reason(stop: &Stop) -> &str {
    match stop {
        // The vendor has no reason of its own for calls.
        Stop::Done | Stop::Tools => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refused => "SAFETY",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let mut parts = Vec::new();
    let mut waiting = None;
    for block in blocks {
        let mut part = match block {
            Block::Thinking { text, signature } => {
                parts.push(json!({"text": text, "thought": true}));
                waiting = Some(signature);
                continue;
            }
            Block::Redacted(data) => {
                waiting = Some(data);
                continue;
            }
            Block::Text(text) => json!({ "text": text }),
            Block::Call { id, name, json } => call_part(id, name, &object(json)),
        };
        if let Some(signature) = waiting.take() {
            part["thoughtSignature"] = signature.as_str().into();
        }
        parts.push(part);
    }
    if let Some(signature) = waiting {
        parts.push(json!({"text": "", "thoughtSignature": signature}));
    }
    chunk(frame, &parts, Some(finish_reason(stop)))
}

pub(super) fn refusal(kind: Kind) -> Refused {
    let (status, name, message) = match kind {
        Kind::Auth => (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        Kind::Forbidden => (403, "PERMISSION_DENIED", "The caller does not have permission"),
        Kind::Billing => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Kind::RateLimit => (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        Kind::Overloaded => (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        Kind::Server => (500, "INTERNAL", "An internal error has occurred."),
        Kind::BadRequest => (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
        Kind::NoSuchModel => (404, "NOT_FOUND", "models/no-such-model is not found for API version v1beta."),
        Kind::TooLong => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
    };
    let mut error = json!({"code": status, "message": message, "status": name});
    if let Some(detail) = detail(kind) {
        error["details"] = json!([detail]);
    }
    Refused::new(status, json!({ "error": error }))
}

fn detail(kind: Kind) -> Option<Value> {
    match kind {
        Kind::Auth => Some(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
            "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"},
        })),
        Kind::RateLimit => {
            Some(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}))
        }
        _ => None,
    }
}
