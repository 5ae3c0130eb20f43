//! The semantic events of one response: items begin, grow and end in the order in which the SDKs put them together.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Bytes;
use serde_json::{Value, json};
use tidegate_engine::{Answer, Follower};
use tidegate_protocol::{ErrorBody, ToolCall};

use super::listening::{DONE, Ended, Heard, Listening};
use super::responses::{Frame, function_call, is_cut, part};
use super::wire::arguments;
use crate::presence::Presence;

pub(super) struct Events {
    listening: Listening,
    frame: Frame,
    /// The number of the next event.
    number: u64,
    /// The message item is open.
    speaking: bool,
    ready: VecDeque<Bytes>,
}

impl Events {
    pub(super) fn new(follower: Follower, presence: Presence, frame: Frame) -> Self {
        let mut events = Self {
            listening: Listening::new(follower, presence),
            frame,
            number: 0,
            speaking: false,
            ready: VecDeque::new(),
        };
        for kind in ["response.created", "response.in_progress"] {
            let response = events.frame.begun().clone();
            events.put(kind, json!({ "response": response }));
        }
        events
    }

    pub(super) async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while self.ready.is_empty() {
            match self.listening.next().await? {
                Heard::More(more) => self.say(&more),
                Heard::Ended(end) => self.finish(end),
            }
        }
        let frame = self.ready.pop_front()?;
        Some((Ok(frame), self))
    }

    fn finish(&mut self, end: Result<Ended, ErrorBody>) {
        match end {
            Ok(Ended { answer, rest }) => self.complete(&answer, &rest),
            Err(error) => {
                let response = self.frame.failed(&error);
                self.put("response.failed", json!({ "response": response }));
            }
        }
        self.ready.push_back(DONE);
    }

    fn complete(&mut self, answer: &Answer, rest: &str) {
        if !rest.is_empty() {
            self.say(rest);
        }
        let response = self.frame.ended(answer);
        let says = self.speaking || answer.handed.is_empty();
        if says {
            self.open();
            self.close(&answer.text, &response["output"][0]);
        }
        for (at, call) in answer.handed.iter().enumerate() {
            self.hand_over(call, at + usize::from(says));
        }
        let kind = if is_cut(answer) { "response.incomplete" } else { "response.completed" };
        self.put(kind, json!({ "response": response }));
    }

    /// Begins the message, once.
    fn open(&mut self) {
        if std::mem::replace(&mut self.speaking, true) {
            return;
        }
        let item = self.frame.message("", "in_progress");
        self.put("response.output_item.added", json!({ "output_index": 0, "item": item }));
        let body = self.of_text(&[("part", part(""))]);
        self.put("response.content_part.added", body);
    }

    fn say(&mut self, more: &str) {
        self.open();
        let body = self.of_text(&[("delta", more.into()), ("logprobs", json!([]))]);
        self.put("response.output_text.delta", body);
    }

    fn close(&mut self, text: &str, item: &Value) {
        let body = self.of_text(&[("text", text.into()), ("logprobs", json!([]))]);
        self.put("response.output_text.done", body);
        let body = self.of_text(&[("part", part(text))]);
        self.put("response.content_part.done", body);
        self.put("response.output_item.done", json!({ "output_index": 0, "item": item }));
    }

    fn hand_over(&mut self, call: &ToolCall, at: usize) {
        let arguments = arguments(call);
        let begun = function_call(call, "", "in_progress");
        let id = begun["id"].clone();
        self.put("response.output_item.added", json!({ "output_index": at, "item": begun }));
        let delta = json!({ "item_id": id, "output_index": at, "delta": arguments });
        self.put("response.function_call_arguments.delta", delta);
        let done = json!({ "item_id": id, "output_index": at, "name": call.name, "arguments": arguments });
        self.put("response.function_call_arguments.done", done);
        let item = function_call(call, &arguments, "completed");
        self.put("response.output_item.done", json!({ "output_index": at, "item": item }));
    }

    /// What every event about the text of the message has.
    fn of_text(&self, fields: &[(&str, Value)]) -> Value {
        let mut body = json!({ "item_id": self.frame.message_id(), "output_index": 0, "content_index": 0 });
        for (name, value) in fields {
            body[*name] = value.clone();
        }
        body
    }

    fn put(&mut self, kind: &str, mut body: Value) {
        body["type"] = kind.into();
        body["sequence_number"] = self.number.into();
        self.number += 1;
        self.ready.push_back(Bytes::from(format!("event: {kind}\ndata: {body}\n\n")));
    }
}
