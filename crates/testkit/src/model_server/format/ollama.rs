//! Ollama's chat: one JSON value a line, calls in one piece.

use serde_json::{Value, json};

use super::{Events, Frame, HOLE, Refused, Writer, cut_at_hole, object};
use crate::model_server::turn::{Block, Kind, Stop};

/// The same instant in every run.
const CREATED: &str = "2026-01-01T00:00:00.000000Z";

pub(super) struct Stream {
    frame: Frame,
    calls: usize,
    /// A call that is not out yet.
    call: Option<(String, String, String)>,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, calls: 0, call: None }
    }

    fn line(&self, message: &Value) -> Vec<u8> {
        let line = json!({
            "model": self.frame.model, "created_at": CREATED, "message": message, "done": false,
        });
        format!("{line}\n").into_bytes()
    }

    fn call_line(&mut self, id: &str, name: &str, arguments: &Value) -> Vec<u8> {
        let call = call(self.calls, id, name, arguments);
        self.calls += 1;
        self.line(&json!({"role": "assistant", "content": "", "tool_calls": [call]}))
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        Events::new()
    }

    fn text(&mut self, piece: &str) -> Events {
        let mut events = self.close();
        events.push(self.line(&json!({"role": "assistant", "content": piece})));
        events
    }

    fn thinking(&mut self, piece: &str) -> Events {
        let mut events = self.close();
        events.push(self.line(&json!({"role": "assistant", "content": "", "thinking": piece})));
        events
    }

    fn signature(&mut self, _signature: &str) -> Events {
        Events::new()
    }

    fn redacted(&mut self, _data: &str) -> Events {
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
        call.into_iter().map(|(id, name, json)| self.call_line(&id, &name, &object(&json))).collect()
    }

    fn cut(&mut self) -> Vec<u8> {
        let Some((id, name, json)) = self.call.take() else { return Vec::new() };
        cut_at_hole(&self.call_line(&id, &name, &HOLE.into()), &json)
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let mut events = self.close();
        let last = last(&self.frame, &json!({"role": "assistant", "content": ""}), stop);
        events.push(format!("{last}\n").into_bytes());
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        vec![format!("{}\n", refusal(kind).body).into_bytes()]
    }
}

fn call(index: usize, id: &str, name: &str, arguments: &Value) -> Value {
    json!({"id": id, "function": {"index": index, "name": name, "arguments": arguments}})
}

fn last(frame: &Frame, message: &Value, stop: &Stop) -> Value {
    json!({
        "model": frame.model, "created_at": CREATED, "message": message, "done": true, "done_reason": done_reason(stop),
        "total_duration": 5_000_000, "load_duration": 1_000_000, "prompt_eval_count": frame.tokens.prompt(),
        "prompt_eval_duration": 1_000_000, "eval_count": frame.tokens.output, "eval_duration": 3_000_000,
    })
}

fn done_reason(stop: &Stop) -> &str {
    match stop {
        // The vendor has no reason of its own for calls, and no filter.
        Stop::Done | Stop::Tools | Stop::Refused => "stop",
        Stop::Length => "length",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(more) => text.push_str(more),
            Block::Thinking { text, .. } => thinking.push_str(text),
            Block::Redacted(_) => {}
            Block::Call { id, name, json } => calls.push(call(calls.len(), id, name, &object(json))),
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !thinking.is_empty() {
        message["thinking"] = thinking.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    last(frame, &message, stop)
}

pub(super) fn refusal(kind: Kind) -> Refused {
    let (status, message) = match kind {
        Kind::Auth => (401, "unauthorized"),
        Kind::Forbidden => (403, "this model requires a subscription, upgrade for access"),
        Kind::Billing => (402, "you've reached your usage limit, please upgrade to continue"),
        Kind::RateLimit => (429, "too many concurrent requests"),
        Kind::Overloaded => (503, "server busy, please try again.  maximum pending requests exceeded"),
        Kind::Server => (500, "llama runner process has terminated: exit status 2"),
        Kind::BadRequest => (400, "invalid options"),
        Kind::NoSuchModel => (404, "model 'no-such-model' not found"),
        Kind::TooLong => (400, "the input length exceeds the context length"),
    };
    Refused::new(status, json!({ "error": message }))
}
