//! OpenAI's Responses, which Codex speaks too.
//!
//! The vendor repeats everything it said in its closing events, so here an answer is kept until it ends.

use serde_json::{Value, json};

use super::{CREATED, Events, Frame, Refused, Writer, completions, named_event};
use crate::model_server::turn::{Block, Kind, Stop};

pub(super) struct Stream {
    frame: Frame,
    sequence: u64,
    /// Items that are whole.
    output: Vec<Value>,
    open: Option<Open>,
}

enum Open {
    Text(String),
    Thinking { text: String, signature: String },
    Call { id: String, name: String, json: String },
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, sequence: 0, output: Vec::new(), open: None }
    }

    /// An event of that type; it gets its number and, if it is about an item, the item's place.
    fn event(&mut self, kind: &str, mut data: Value) -> Vec<u8> {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        named_event(kind, &data)
    }

    fn index(&self) -> usize {
        self.output.len()
    }

    fn added(&mut self, item: &Value) -> Vec<u8> {
        let index = self.index();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}))
    }

    /// The item is over: what it became goes out and stays.
    fn item_done(&mut self, item: Value) -> Vec<u8> {
        let index = self.index();
        let event =
            self.event("response.output_item.done", json!({"output_index": index, "item": item.clone()}));
        self.output.push(item);
        event
    }

    fn response(&self, status: &str) -> Value {
        response(&self.frame, status, &self.output)
    }

    fn close_text(&mut self, text: &str) -> Events {
        let index = self.index();
        let (item, part) = (item_id("msg", index), text_part(text));
        let place = json!({"item_id": item, "output_index": index, "content_index": 0});
        vec![
            self.event("response.output_text.done", with(&place, "text", text.into(), Some("logprobs"))),
            self.event("response.content_part.done", with(&place, "part", part, None)),
            self.item_done(text_item(index, text)),
        ]
    }

    fn close_thinking(&mut self, text: &str, signature: &str) -> Events {
        let index = self.index();
        let place = json!({"item_id": item_id("rs", index), "output_index": index, "summary_index": 0});
        let part = json!({"type": "summary_text", "text": text});
        vec![
            self.event("response.reasoning_summary_text.done", with(&place, "text", text.into(), None)),
            self.event("response.reasoning_summary_part.done", with(&place, "part", part, None)),
            self.item_done(reasoning_item(index, Some(text), signature)),
        ]
    }

    fn close_call(&mut self, id: &str, name: &str, arguments: &str) -> Events {
        let index = self.index();
        let data = json!({
            "item_id": item_id("fc", index), "output_index": index, "name": name, "arguments": arguments,
        });
        vec![
            self.event("response.function_call_arguments.done", data),
            self.item_done(call_item(index, id, name, arguments, "completed")),
        ]
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Events {
        let response = self.response("in_progress");
        vec![
            self.event("response.created", json!({ "response": response })),
            self.event("response.in_progress", json!({ "response": response })),
        ]
    }

    fn text(&mut self, piece: &str) -> Events {
        let mut events = Events::new();
        if !matches!(self.open, Some(Open::Text(_))) {
            events.extend(self.close());
            let index = self.index();
            let mut item = text_item(index, "");
            item["status"] = "in_progress".into();
            item["content"] = json!([]);
            events.push(self.added(&item));
            let data = json!({
                "item_id": item_id("msg", index), "output_index": index, "content_index": 0, "part": text_part(""),
            });
            events.push(self.event("response.content_part.added", data));
            self.open = Some(Open::Text(String::new()));
        }
        if let Some(Open::Text(text)) = &mut self.open {
            text.push_str(piece);
        }
        let index = self.index();
        let data = json!({
            "item_id": item_id("msg", index), "output_index": index, "content_index": 0, "delta": piece,
            "logprobs": [],
        });
        events.push(self.event("response.output_text.delta", data));
        events
    }

    /// Events are numbered.
    fn repeats(&self) -> bool {
        false
    }

    fn thinking(&mut self, piece: &str) -> Events {
        let mut events = Events::new();
        if !matches!(self.open, Some(Open::Thinking { .. })) {
            events.extend(self.close());
            let index = self.index();
            events.push(self.added(&reasoning_item(index, None, "")));
            let part = json!({"type": "summary_text", "text": ""});
            let data = json!({
                "item_id": item_id("rs", index), "output_index": index, "summary_index": 0, "part": part,
            });
            events.push(self.event("response.reasoning_summary_part.added", data));
            self.open = Some(Open::Thinking { text: String::new(), signature: String::new() });
        }
        if let Some(Open::Thinking { text, .. }) = &mut self.open {
            text.push_str(piece);
        }
        let index = self.index();
        let data = json!({
            "item_id": item_id("rs", index), "output_index": index, "summary_index": 0, "delta": piece,
        });
        events.push(self.event("response.reasoning_summary_text.delta", data));
        events
    }

    fn signature(&mut self, told: &str) -> Events {
        if let Some(Open::Thinking { signature, .. }) = &mut self.open {
            told.clone_into(signature);
        }
        self.close()
    }

    fn redacted(&mut self, data: &str) -> Events {
        let mut events = self.close();
        let index = self.index();
        events.push(self.added(&reasoning_item(index, None, "")));
        events.push(self.item_done(reasoning_item(index, None, data)));
        events
    }

    fn call(&mut self, id: &str, name: &str) -> Events {
        let mut events = self.close();
        events.push(self.added(&call_item(self.index(), id, name, "", "in_progress")));
        self.open = Some(Open::Call { id: id.to_owned(), name: name.to_owned(), json: String::new() });
        events
    }

    fn arguments(&mut self, piece: &str) -> Events {
        if let Some(Open::Call { json, .. }) = &mut self.open {
            json.push_str(piece);
        }
        let index = self.index();
        let data = json!({"item_id": item_id("fc", index), "output_index": index, "delta": piece});
        vec![self.event("response.function_call_arguments.delta", data)]
    }

    fn close(&mut self) -> Events {
        match self.open.take() {
            None => Events::new(),
            Some(Open::Text(text)) => self.close_text(&text),
            Some(Open::Thinking { text, signature }) => self.close_thinking(&text, &signature),
            Some(Open::Call { id, name, json }) => self.close_call(&id, &name, &json),
        }
    }

    fn finish(&mut self, stop: &Stop) -> Events {
        let mut events = self.close();
        let (status, why) = status(stop);
        let mut response = self.response(status);
        if let Some(why) = why {
            response["incomplete_details"] = json!({ "reason": why });
        }
        response["usage"] = usage(&self.frame);
        events.push(self.event(&format!("response.{status}"), json!({ "response": response })));
        events
    }

    fn error(&mut self, kind: Kind) -> Events {
        let told = completions::refusal(kind).body;
        let mut response = self.response("failed");
        response["error"] = json!({"code": told["error"]["code"], "message": told["error"]["message"]});
        vec![self.event("response.failed", json!({ "response": response }))]
    }
}

fn item_id(prefix: &str, index: usize) -> String {
    format!("{prefix}_{index:04}")
}

/// `place` with one field more, and an empty list under another name if one is given.
fn with(place: &Value, field: &str, value: Value, list: Option<&str>) -> Value {
    let mut data = place.clone();
    data[field] = value;
    if let Some(list) = list {
        data[list] = json!([]);
    }
    data
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn text_item(index: usize, text: &str) -> Value {
    json!({
        "id": item_id("msg", index), "type": "message", "status": "completed", "role": "assistant",
        "content": [text_part(text)],
    })
}

fn reasoning_item(index: usize, summary: Option<&str>, encrypted: &str) -> Value {
    let summary: Vec<_> = summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    let mut item = json!({"id": item_id("rs", index), "type": "reasoning", "summary": summary});
    if !encrypted.is_empty() {
        item["encrypted_content"] = encrypted.into();
    }
    item
}

fn call_item(index: usize, id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({
        "id": item_id("fc", index), "type": "function_call", "status": status, "call_id": id, "name": name,
        "arguments": arguments,
    })
}

fn status(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::Done | Stop::Tools => ("completed", None),
        Stop::Length => ("incomplete", Some("max_output_tokens")),
        Stop::Refused => ("incomplete", Some("content_filter")),
        Stop::Other(word) => ("incomplete", Some(word)),
    }
}

fn usage(frame: &Frame) -> Value {
    let tokens = frame.tokens;
    json!({
        "input_tokens": tokens.prompt(), "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.total(),
    })
}

fn response(frame: &Frame, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{:04}", frame.number), "object": "response", "created_at": CREATED, "status": status,
        "error": null, "incomplete_details": null, "instructions": null, "max_output_tokens": null,
        "model": frame.model, "output": output, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "store": false, "temperature": 1.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": null, "user": null, "metadata": {},
    })
}

pub(super) fn whole(frame: &Frame, blocks: &[Block], stop: &Stop) -> Value {
    let item = |(index, block): (usize, &Block)| match block {
        Block::Text(text) => text_item(index, text),
        Block::Thinking { text, signature } => reasoning_item(index, Some(text), signature),
        Block::Redacted(data) => reasoning_item(index, None, data),
        Block::Call { id, name, json } => call_item(index, id, name, json, "completed"),
    };
    let output: Vec<_> = blocks.iter().enumerate().map(item).collect();
    let (status, why) = status(stop);
    let mut response = response(frame, status, &output);
    if let Some(why) = why {
        response["incomplete_details"] = json!({ "reason": why });
    }
    response["usage"] = usage(frame);
    response
}

/// Codex speaks of a plan's limit where the platform speaks of rates and quotas, and has its own words at its door.
pub(super) fn codex_refusal(kind: Kind) -> Refused {
    match kind {
        Kind::Auth => {
            Refused::new(401, json!({"detail": "Could not validate your token. Please sign in again."}))
        }
        Kind::RateLimit | Kind::Billing => {
            let error = json!({
                "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
                "resets_at": CREATED + 3600, "resets_in_seconds": 3600,
            });
            Refused::new(429, json!({ "error": error }))
        }
        _ => completions::refusal(kind),
    }
}
