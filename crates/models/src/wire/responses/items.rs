//! A conversation as input items.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message};

use crate::catalogue::ModelInfo;
use crate::replay::{Ids, replay};
use crate::request::Request;
use crate::wire::Names;
use crate::wire::pieces::NO_OUTPUT;

pub(in crate::wire) fn conversation(request: &Request, model: &ModelInfo, names: &Names) -> Vec<Value> {
    let mut items = Vec::new();
    for message in replay(&request.messages, model, Ids::Pair) {
        match message {
            Message::User { content, .. } => items.extend(user(&content)),
            Message::Assistant { content, .. } => items.extend(assistant(&content, names)),
            Message::ToolResult { tool_call_id, content, .. } => items.push(json!({
                "type": "function_call_output",
                "call_id": split(&tool_call_id).0,
                "output": output(&content),
            })),
        }
    }
    items
}

fn user(content: &[Block]) -> Option<Value> {
    let parts = parts(content);
    (!parts.is_empty()).then(|| json!({ "role": "user", "content": parts }))
}

/// Text and images as a person or a tool gives them.
fn parts(content: &[Block]) -> Vec<Value> {
    let part = |block: &Block| match block {
        Block::Text { text, .. } if text.is_empty() => None,
        Block::Text { text, .. } => Some(json!({ "type": "input_text", "text": text })),
        Block::Image { data, mime_type } => Some(json!({
            "type": "input_image",
            "detail": "auto",
            "image_url": format!("data:{mime_type};base64,{data}"),
        })),
        Block::Thinking { .. } | Block::ToolCall { .. } => None,
    };
    content.iter().filter_map(part).collect()
}

/// Plain text unless there are images: not every server of this format takes a list.
fn output(content: &[Block]) -> Value {
    if content.iter().any(|block| matches!(block, Block::Image { .. })) {
        return Value::Array(parts(content));
    }
    let texts: Vec<&str> = content.iter().filter_map(text).filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { json!(NO_OUTPUT) } else { json!(texts.join("\n")) }
}

fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// What the model said. The server ties an item that is named by its id to the thought before it, so names are only given
/// when every thought goes back with it, and a thought only when something follows.
fn assistant(content: &[Block], names: &Names) -> Vec<Value> {
    let whole = content.iter().all(|block| match block {
        Block::Thinking { .. } => thought(block).is_some(),
        _ => true,
    });
    let last = content.iter().rposition(|block| !matches!(block, Block::Thinking { .. }));
    let said = &content[..last.map_or(0, |last| last + 1)];
    let item = |block: &Block| match block {
        Block::Text { text, .. } if text.is_empty() => None,
        Block::Text { text, text_signature } => {
            let id = text_signature.as_deref().and_then(message_id).filter(|_| whole);
            Some(said_text(text, id))
        }
        Block::Thinking { .. } => thought(block),
        Block::ToolCall { id, name, arguments, .. } => {
            let (call_id, item_id) = split(id);
            Some(call(call_id, item_id.filter(|_| whole), &names.to_wire(name), arguments))
        }
        Block::Image { .. } => None,
    };
    said.iter().filter_map(item).collect()
}

fn said_text(text: &str, id: Option<String>) -> Value {
    let mut item = Map::new();
    item.insert("type".into(), json!("message"));
    item.insert("role".into(), json!("assistant"));
    item.insert("content".into(), json!([{ "type": "output_text", "text": text, "annotations": [] }]));
    if let Some(id) = id {
        item.insert("id".into(), json!(id));
        item.insert("status".into(), json!("completed"));
    }
    Value::Object(item)
}

fn call(call_id: &str, item_id: Option<&str>, name: &str, arguments: &Value) -> Value {
    let mut item = Map::new();
    item.insert("type".into(), json!("function_call"));
    if let Some(id) = item_id {
        item.insert("id".into(), json!(id));
    }
    item.insert("call_id".into(), json!(call_id));
    item.insert("name".into(), json!(name));
    // What the model wrote and was no JSON is shown to it as it was.
    let written = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    item.insert("arguments".into(), json!(written));
    Value::Object(item)
}

/// The item a thought was, if the server can still read it: by its seal or, where servers seal nothing, by its words. The
/// id alone means nothing to a server that stored nothing.
fn thought(block: &Block) -> Option<Value> {
    let Block::Thinking { thinking_signature: Some(signature), .. } = block else { return None };
    let item: Value = serde_json::from_str(signature).ok()?;
    let sealed = item.get("encrypted_content").and_then(Value::as_str).is_some_and(|seal| !seal.is_empty());
    let spoken = item.get("content").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty());
    (item.get("type")? == "reasoning" && (sealed || spoken)).then_some(item)
}

/// What a text's signature is made of, see [`text_signature`].
fn message_id(signature: &str) -> Option<String> {
    let signature: Value = serde_json::from_str(signature).ok()?;
    let id = signature.get("id")?.as_str()?;
    (signature.get("v")? == 1 && id.starts_with("msg") && id.len() <= 64).then(|| id.to_owned())
}

pub(super) fn text_signature(item_id: &str) -> String {
    json!({ "v": 1, "id": item_id }).to_string()
}

pub(super) fn call_id(call_id: &str, item_id: Option<&str>) -> String {
    item_id.map_or_else(|| call_id.to_owned(), |item_id| format!("{call_id}|{item_id}"))
}

fn split(id: &str) -> (&str, Option<&str>) {
    id.split_once('|').map_or((id, None), |(call, item)| (call, Some(item)))
}
