//! Reads a stream of Responses events. An answer is a list of items; an event names its item by its place in the list.
//! Servers repeat, leave out and reorder, so the place decides what belongs together, an item's end tells the whole of
//! it, and the answer's end tells of items nothing was heard of before.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tidegate_protocol::{StopReason, Usage};

use super::items::{call_id, text_signature};
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::stream::BlockKind;
use crate::wire::borrowed::Text;
use crate::wire::{Decoder, Emit, Key, Names};

/// What an error the server sent means.
type Explain = fn(&Value) -> Failure;

pub(in crate::wire) struct ResponsesDecoder {
    names: Names,
    explain: Explain,
    items: BTreeMap<Key, Item>,
    /// Number and kind of the last event, to know it again.
    last: (u64, String),
}

const TEXT_DELTA: &str = "response.output_text.delta";

/// An event with more of a text.
#[derive(Deserialize)]
struct TextDelta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    output_index: u64,
    #[serde(borrow)]
    delta: Text<'a>,
    #[serde(default)]
    sequence_number: Option<u64>,
}

/// One item of the answer.
#[derive(Default)]
struct Item {
    id: Option<String>,
    state: State,
    is_call: bool,
    /// The call's arguments were told to their end.
    settled: bool,
    /// Arguments that came before their call's name.
    early: String,
    /// The part of a thought that is being told, and whether it is the thought itself or a summary.
    part: Option<(Thought, u64)>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Heard of, nothing shown.
    #[default]
    Known,
    Open,
    /// Whatever is said of it now comes too late.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thought {
    Summary,
    Itself,
}

impl Decoder for ResponsesDecoder {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        if frame.data.trim_ascii() == b"[DONE]" || frame.event == TEXT_DELTA && self.text(frame.data, emit) {
            return Ok(());
        }
        let event: Value = serde_json::from_slice(frame.data).map_err(|_| unreadable())?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(frame.event);
        if self.is_repeated(event.get("sequence_number").and_then(Value::as_u64), kind) {
            return Ok(());
        }
        self.event(kind, &event, emit)
    }
}

impl ResponsesDecoder {
    pub(in crate::wire) fn new(names: Names, explain: Explain) -> Self {
        Self { names, explain, items: BTreeMap::new(), last: (0, String::new()) }
    }

    fn event(&mut self, kind: &str, event: &Value, emit: &mut Emit) -> Result<(), Failure> {
        match kind {
            "response.output_item.added" => self.added(event, emit),
            "response.output_item.done" => {
                let key = self.place(event);
                if let Some(item) = event.get("item") {
                    self.finished(key, item, emit);
                }
            }
            TEXT_DELTA | "response.refusal.delta" => {
                self.delta(event, BlockKind::Text, emit);
            }
            "response.reasoning_summary_text.delta" => self.thought(event, Thought::Summary, emit),
            "response.reasoning_text.delta" => self.thought(event, Thought::Itself, emit),
            "response.function_call_arguments.delta" => self.arguments(event, emit),
            "response.function_call_arguments.done" => self.arguments_done(event, emit),
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => return self.over(kind, event, emit),
            "error" => return Err(self.error(event)),
            _ if event.get("type").is_none() && event.get("error").is_some() => return Err(self.error(event)),
            _ => {}
        }
        Ok(())
    }

    /// More of a text that has begun, which is what nearly every event is: read where it lies. Answers whether it was
    /// that; anything else takes the long way.
    fn text(&mut self, data: &[u8], emit: &mut Emit) -> bool {
        let Ok(TextDelta { kind, output_index, delta, sequence_number }) = serde_json::from_slice(data)
        else {
            return false;
        };
        let open = |item: &Item| item.state == State::Open && !item.is_call;
        if &*kind != TEXT_DELTA || !self.items.get(&output_index).is_some_and(open) {
            return false;
        }
        if !self.is_repeated(sequence_number, TEXT_DELTA) {
            emit.push(output_index, &delta);
        }
        true
    }

    /// Some servers number nothing or everything alike; a number that moves and then stays is the same event again.
    fn is_repeated(&mut self, number: Option<u64>, kind: &str) -> bool {
        let Some(number) = number.filter(|number| *number > 0) else { return false };
        let (last, of) = &mut self.last;
        let repeated = *last == number && of == kind;
        *last = number;
        if of != kind {
            kind.clone_into(of);
        }
        repeated
    }

    fn error(&self, event: &Value) -> Failure {
        if let Some(error) = event.get("error").filter(|error| error.is_object()) {
            return (self.explain)(error);
        }
        let mut error = event.clone();
        // A number that tells nothing is not to be taken for a status.
        if let Some(fields) = error.as_object_mut() {
            fields.remove("sequence_number");
        }
        (self.explain)(&error)
    }

    /// Where the event's item stands. Ids are looked at only where no place is given: some servers give an item another
    /// id in every event.
    fn place(&mut self, event: &Value) -> Key {
        let id = text(event, "item_id").or_else(|| text(event.get("item")?, "id"));
        let place = event.get("output_index").and_then(Value::as_u64);
        let key = place.or_else(|| self.known(id)).unwrap_or_else(|| {
            let next = self.items.keys().next_back().map_or(0, |last| last.saturating_add(1));
            // A delta without any name belongs to what was spoken of last.
            if event.get("item").is_none() && id.is_none() { next.saturating_sub(1) } else { next }
        });
        let item = self.items.entry(key).or_default();
        if item.id.is_none() {
            item.id = id.map(str::to_owned);
        }
        key
    }

    fn known(&self, id: Option<&str>) -> Option<Key> {
        let id = id?;
        self.items.iter().find(|(_, item)| item.id.as_deref() == Some(id)).map(|(key, _)| *key)
    }

    fn added(&mut self, event: &Value, emit: &mut Emit) {
        let key = self.place(event);
        if let Some(kind) = event.get("item").and_then(|item| block_kind(item, &self.names)) {
            self.open(key, kind, emit);
        }
    }

    /// The item if more may be said of it.
    fn open(&mut self, key: Key, kind: BlockKind, emit: &mut Emit) -> Option<&mut Item> {
        let item = self.items.entry(key).or_default();
        match item.state {
            State::Closed => return None,
            State::Open => {}
            State::Known => {
                item.state = State::Open;
                item.is_call = matches!(kind, BlockKind::ToolCall { .. });
                emit.open(key, kind);
                emit.push(key, &std::mem::take(&mut item.early));
            }
        }
        Some(item)
    }

    fn delta(&mut self, event: &Value, kind: BlockKind, emit: &mut Emit) {
        let key = self.place(event);
        if let Some(delta) = text(event, "delta")
            && self.open(key, kind, emit).is_some()
        {
            emit.push(key, delta);
        }
    }

    fn thought(&mut self, event: &Value, told: Thought, emit: &mut Emit) {
        let key = self.place(event);
        let index = match told {
            Thought::Summary => "summary_index",
            Thought::Itself => "content_index",
        };
        let part = event.get(index).and_then(Value::as_u64).unwrap_or_default();
        let Some(delta) = text(event, "delta") else { return };
        let Some(item) = self.open(key, BlockKind::Thinking, emit) else { return };
        match item.part {
            // One of the two is enough.
            Some((other, _)) if other != told => return,
            Some((_, before)) if before != part => emit.push(key, PART_BREAK),
            _ => {}
        }
        item.part = Some((told, part));
        emit.push(key, delta);
    }

    fn arguments(&mut self, event: &Value, emit: &mut Emit) {
        let key = self.place(event);
        let Some(delta) = text(event, "delta") else { return };
        let item = self.items.entry(key).or_default();
        match item.state {
            State::Known => item.early.push_str(delta),
            State::Open => emit.push(key, delta),
            State::Closed => {}
        }
    }

    fn arguments_done(&mut self, event: &Value, emit: &mut Emit) {
        let key = self.place(event);
        let Some(whole) = text(event, "arguments") else { return };
        let item = self.items.entry(key).or_default();
        item.settled = true;
        match item.state {
            State::Known => whole.clone_into(&mut item.early),
            State::Open if !whole.is_empty() => emit.settle(key, whole),
            State::Open | State::Closed => {}
        }
    }

    /// The whole of an item.
    fn finished(&mut self, key: Key, value: &Value, emit: &mut Emit) {
        let Some(kind) = block_kind(value, &self.names) else { return };
        let cut_off = text(value, "status") == Some("incomplete");
        let is_call = matches!(kind, BlockKind::ToolCall { .. });
        let Some(item) = self.open(key, kind.clone(), emit) else { return };
        item.state = State::Closed;
        let told = item.part.map(|(told, _)| told);
        if is_call && cut_off {
            return emit.abandon(key);
        }
        let whole = match kind {
            BlockKind::Text => spoken(value),
            BlockKind::Thinking => thought_of(value, told),
            BlockKind::ToolCall { .. } => text(value, "arguments").unwrap_or_default().to_owned(),
        };
        if !whole.is_empty() {
            emit.settle(key, &whole);
        }
        match kind {
            BlockKind::Text => {
                if let Some(id) = text(value, "id") {
                    emit.sign(key, text_signature(id));
                }
            }
            BlockKind::Thinking => emit.sign(key, value.to_string()),
            BlockKind::ToolCall { .. } => {}
        }
        emit.close_unless_doubtful(key);
    }

    fn over(&mut self, kind: &str, event: &Value, emit: &mut Emit) -> Result<(), Failure> {
        let response = event.get("response").unwrap_or(&Value::Null);
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            emit.usage(usage_of(usage));
        }
        let status = text(response, "status");
        let status = status.unwrap_or_else(|| kind.strip_prefix("response.").unwrap_or(kind));
        match status {
            "failed" | "cancelled" => {
                let error = response.get("error").filter(|error| !error.is_null());
                Err(error.map_or_else(|| ended_early(status), |error| (self.explain)(error)))
            }
            "incomplete" => {
                self.unheard(response, false, emit);
                let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
                if reason == Some("content_filter") {
                    return Err(filtered());
                }
                emit.done(StopReason::Length);
                Ok(())
            }
            _ => {
                self.unheard(response, true, emit);
                emit.done(StopReason::Stop);
                Ok(())
            }
        }
    }

    /// Items whose end was left out of the stream, or all that was said of them. A call that nobody says is complete was
    /// cut off, unless its arguments show that it was not.
    fn unheard(&mut self, response: &Value, completed: bool, emit: &mut Emit) {
        let items = response.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (place, value) in (0..).zip(items) {
            if completed || text(value, "type") != Some("function_call") || is_complete(value) {
                let key = self.known(text(value, "id")).unwrap_or(place);
                self.finished(key, value, emit);
            }
        }
        for (key, item) in &mut self.items {
            let object =
                |json: &str| serde_json::from_str::<Value>(json).is_ok_and(|value| value.is_object());
            let cut_off = item.state == State::Open && item.is_call && !item.settled;
            if cut_off && !emit.text(*key).is_some_and(object) {
                item.state = State::Closed;
                emit.abandon(*key);
            }
        }
    }
}

fn is_complete(item: &Value) -> bool {
    text(item, "status") == Some("completed")
}

/// Between the parts of a thought.
const PART_BREAK: &str = "\n\n";

/// What kind of block an item is; `None` for what is none, or for a call that does not say yet whom it calls.
fn block_kind(item: &Value, names: &Names) -> Option<BlockKind> {
    match text(item, "type")? {
        "message" => Some(BlockKind::Text),
        "reasoning" => Some(BlockKind::Thinking),
        "function_call" => {
            let name = text(item, "name").filter(|name| !name.is_empty())?;
            let item_id = text(item, "id").filter(|id| !id.is_empty());
            let call = text(item, "call_id").filter(|id| !id.is_empty()).or(item_id)?;
            let id = call_id(call, item_id);
            Some(BlockKind::ToolCall { id, name: names.from_wire(name).into_owned() })
        }
        _ => None,
    }
}

/// A message's words; a refusal's are words too.
fn spoken(item: &Value) -> String {
    texts(item, "content", &["text", "refusal"]).concat()
}

/// A thought's words: of the kind that was told before, or else whichever there are.
fn thought_of(item: &Value, told: Option<Thought>) -> String {
    let summary = || texts(item, "summary", &["text"]).join(PART_BREAK);
    let itself = || texts(item, "content", &["text"]).join(PART_BREAK);
    match told {
        Some(Thought::Summary) => summary(),
        Some(Thought::Itself) => itself(),
        None => Some(summary()).filter(|text| !text.is_empty()).unwrap_or_else(itself),
    }
}

fn texts<'a>(item: &'a Value, list: &str, fields: &[&str]) -> Vec<&'a str> {
    let parts = item.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| fields.iter().find_map(|field| text(part, field))).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// Cached tokens are part of the input, thoughts part of the output.
fn usage_of(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let cached = count("/input_tokens_details/cached_tokens");
    Usage {
        input: count("/input_tokens").saturating_sub(cached),
        output: count("/output_tokens"),
        cache_read: cached,
        ..Usage::default()
    }
}

fn filtered() -> Failure {
    Failure::new(FailureKind::Refused, "the provider's filter stopped the answer")
}

fn unreadable() -> Failure {
    Failure::new(FailureKind::Broken, "the model's answer has an event that is no JSON")
}

fn ended_early(status: &str) -> Failure {
    Failure::new(FailureKind::Broken, format!("the provider ended the answer: {status}"))
}
