//! Reads each vendor's events into one shape, written apart from the code that makes them.

use serde_json::Value;

use super::client::Came;
use crate::model_server::Format;
use crate::model_server::eventstream::crc32;

/// What an answer says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) signature: String,
    /// Id, name, arguments.
    pub(super) calls: Vec<(String, String, Value)>,
    pub(super) stop: String,
    /// Everything that went in, and what came out.
    pub(super) tokens: (u64, u64),
}

/// An event: its name, if it has one, and its data.
pub(super) type Event = (String, Value);

pub(super) fn events(format: Format, came: &Came) -> Vec<Event> {
    match format {
        Format::Bedrock => messages(&came.bytes()),
        Format::Ollama => {
            came.text().lines().map(|line| (String::new(), serde_json::from_str(line).unwrap())).collect()
        }
        _ => sse(&came.text()),
    }
}

/// Server-sent events; the closing `[DONE]` is a text.
fn sse(text: &str) -> Vec<Event> {
    let text = text.replace("\r\n", "\n");
    let blocks = text.strip_suffix("\n\n").expect("the last event is whole").split("\n\n");
    let event = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let data = field("data: ");
        let data = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
        (field("event: ").to_owned(), data)
    };
    blocks.map(event).collect()
}

/// Amazon's messages, every checksum checked.
fn messages(mut bytes: &[u8]) -> Vec<Event> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let (total, headers_end) = (number(bytes) as usize, 12 + number(&bytes[4..]) as usize);
        let (message, rest) = bytes.split_at(total);
        assert_eq!(number(&message[8..]), crc32(&message[..8]));
        assert_eq!(number(&message[total - 4..]), crc32(&message[..total - 4]));
        let mut headers = &message[12..headers_end];
        let mut name = String::new();
        while let [length, after @ ..] = headers {
            let (key, after) = after.split_at(usize::from(*length));
            assert_eq!(after[0], 7, "a text");
            let length = usize::from(u16::from_be_bytes([after[1], after[2]]));
            let (value, after) = after[3..].split_at(length);
            if key == b":event-type" || key == b":exception-type" {
                name = String::from_utf8(value.to_vec()).unwrap();
            }
            headers = after;
        }
        events.push((name, serde_json::from_slice(&message[headers_end..total - 4]).unwrap()));
        bytes = rest;
    }
    events
}

pub(super) fn seen(format: Format, events: &[Event]) -> Seen {
    let mut reader = Reader::default();
    for (name, data) in events {
        match format {
            Format::Anthropic => reader.anthropic(data),
            Format::Completions => reader.completions(data),
            Format::Responses | Format::Codex => reader.responses(name, data),
            Format::Google => reader.google(data),
            Format::Ollama => reader.ollama(data),
            Format::Bedrock => reader.bedrock(name, data),
        }
    }
    reader.seen()
}

#[derive(Default)]
struct Reader {
    seen: Seen,
    /// Id, name and the text of the arguments.
    calls: Vec<(String, String, String)>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Reader {
    fn seen(mut self) -> Seen {
        let parse =
            |(id, name, json): (String, String, String)| (id, name, serde_json::from_str(&json).unwrap());
        self.seen.calls = self.calls.into_iter().map(parse).collect();
        self.seen
    }

    fn begin(&mut self, id: &Value, name: &Value) {
        self.calls.push((text(id), text(name), String::new()));
    }

    fn more(&mut self, json: &Value) {
        self.calls.last_mut().unwrap().2.push_str(json.as_str().unwrap());
    }

    fn anthropic(&mut self, data: &Value) {
        let (block, delta) = (&data["content_block"], &data["delta"]);
        if block["type"] == "tool_use" {
            self.begin(&block["id"], &block["name"]);
        }
        self.seen.text += &text(&delta["text"]);
        self.seen.thinking += &text(&delta["thinking"]);
        self.seen.signature += &text(&delta["signature"]);
        if delta["partial_json"].is_string() {
            self.more(&delta["partial_json"]);
        }
        if data["type"] == "message_delta" {
            self.seen.stop = text(&delta["stop_reason"]);
            let tokens = |field: &str| data["usage"][field].as_u64().unwrap();
            let input = tokens("input_tokens")
                + tokens("cache_read_input_tokens")
                + tokens("cache_creation_input_tokens");
            self.seen.tokens = (input, tokens("output_tokens"));
        }
    }

    fn completions(&mut self, data: &Value) {
        let choice = &data["choices"][0];
        self.seen.text += &text(&choice["delta"]["content"]);
        self.seen.thinking += &text(&choice["delta"]["reasoning_content"]);
        let call = &choice["delta"]["tool_calls"][0];
        if call["id"].is_string() {
            self.begin(&call["id"], &call["function"]["name"]);
        }
        if call["function"]["arguments"].is_string() {
            self.more(&call["function"]["arguments"]);
        }
        if choice["finish_reason"].is_string() {
            self.seen.stop = text(&choice["finish_reason"]);
        }
        if data["usage"].is_object() {
            let tokens = |field: &str| data["usage"][field].as_u64().unwrap();
            self.seen.tokens = (tokens("prompt_tokens"), tokens("completion_tokens"));
        }
    }

    fn responses(&mut self, name: &str, data: &Value) {
        let (item, delta) = (&data["item"], text(&data["delta"]));
        match name {
            "response.output_text.delta" => self.seen.text += &delta,
            "response.reasoning_summary_text.delta" => self.seen.thinking += &delta,
            "response.function_call_arguments.delta" => self.more(&data["delta"]),
            "response.output_item.added" if item["type"] == "function_call" => {
                self.begin(&item["call_id"], &item["name"]);
            }
            "response.output_item.done" => self.seen.signature += &text(&item["encrypted_content"]),
            "response.completed" | "response.incomplete" => {
                self.seen.stop = text(&data["response"]["status"]);
                let tokens = |field: &str| data["response"]["usage"][field].as_u64().unwrap();
                self.seen.tokens = (tokens("input_tokens"), tokens("output_tokens"));
            }
            _ => {}
        }
    }

    fn google(&mut self, data: &Value) {
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().unwrap() {
            let thinks = part["thought"] == true;
            let into = if thinks { &mut self.seen.thinking } else { &mut self.seen.text };
            *into += &text(&part["text"]);
            self.seen.signature += &text(&part["thoughtSignature"]);
            let call = &part["functionCall"];
            if call.is_object() {
                self.calls.push((text(&call["id"]), text(&call["name"]), call["args"].to_string()));
            }
        }
        self.seen.stop += &text(&candidate["finishReason"]);
        let tokens = |field: &str| data["usageMetadata"][field].as_u64().unwrap();
        self.seen.tokens = (tokens("promptTokenCount"), tokens("candidatesTokenCount"));
    }

    fn ollama(&mut self, data: &Value) {
        let message = &data["message"];
        self.seen.text += &text(&message["content"]);
        self.seen.thinking += &text(&message["thinking"]);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            self.calls.push((text(&call["id"]), text(&function["name"]), function["arguments"].to_string()));
        }
        if data["done"] == true {
            self.seen.stop = text(&data["done_reason"]);
            let tokens = |field: &str| data[field].as_u64().unwrap();
            self.seen.tokens = (tokens("prompt_eval_count"), tokens("eval_count"));
        }
    }

    fn bedrock(&mut self, name: &str, data: &Value) {
        let delta = &data["delta"];
        match name {
            "contentBlockStart" => {
                let call = &data["start"]["toolUse"];
                self.begin(&call["toolUseId"], &call["name"]);
            }
            "contentBlockDelta" => {
                self.seen.text += &text(&delta["text"]);
                self.seen.thinking += &text(&delta["reasoningContent"]["text"]);
                self.seen.signature += &text(&delta["reasoningContent"]["signature"]);
                if delta["toolUse"].is_object() {
                    self.more(&delta["toolUse"]["input"]);
                }
            }
            "messageStop" => self.seen.stop = text(&data["stopReason"]),
            "metadata" => {
                let tokens = |field: &str| data["usage"][field].as_u64().unwrap();
                let input =
                    tokens("inputTokens") + tokens("cacheReadInputTokens") + tokens("cacheWriteInputTokens");
                self.seen.tokens = (input, tokens("outputTokens"));
            }
            _ => {}
        }
    }
}
