//! The body of a request.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message};

use super::super::claude::Generation;
use super::super::pieces::{NO_OUTPUT, OPENING};
use super::super::{Names, arguments};
use crate::catalogue::ModelInfo;
use crate::replay::{Ids, replay};
use crate::request::{CacheRetention, Request, ToolChoice, ToolSpec};

/// Anthropic takes four marks in one request; the last message needs one of them.
const MOST_SYSTEM_MARKS: usize = 3;

pub(super) fn body(request: &Request, model: &ModelInfo, generation: Generation) -> Value {
    let cache = cache_control(request.options.cache, model);
    let names = Names::new(&request.tools);
    let conversation = replay(&request.messages, model, Ids::Safe64);
    let mut messages = messages(&conversation, &names);
    if let Some(mark) = &cache {
        mark_last_user(&mut messages, mark);
    }
    let mut body = json!({ "model": model.id, "stream": true, "messages": messages });
    let system = system(&request.system, cache.as_ref());
    if !system.is_empty() {
        body["system"] = system.into();
    }
    if model.tools && !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|spec| tool(spec, &names)).collect();
        if let Some(choice) = tool_choice(&request.options.tool_choice, &names) {
            body["tool_choice"] = choice;
        }
    }
    let plan = generation.plan(request, model, &conversation);
    body["max_tokens"] = plan.max_tokens.into();
    for (name, value) in plan.fields {
        body[name] = value;
    }
    if let Some(temperature) = plan.temperature {
        body["temperature"] = temperature.into();
    }
    body
}

fn cache_control(retention: CacheRetention, model: &ModelInfo) -> Option<Value> {
    // Those who copy the format know the short mark only.
    let is_anthropic = host(&model.base_url) == "api.anthropic.com";
    match retention {
        CacheRetention::None => None,
        CacheRetention::Long if is_anthropic => Some(json!({ "type": "ephemeral", "ttl": "1h" })),
        CacheRetention::Short | CacheRetention::Long => Some(json!({ "type": "ephemeral" })),
    }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}

fn system(texts: &[String], cache: Option<&Value>) -> Vec<Value> {
    let texts: Vec<_> = texts.iter().filter(|text| !text.trim().is_empty()).collect();
    let first_marked = texts.len().saturating_sub(MOST_SYSTEM_MARKS);
    let block = |(at, text): (usize, &&String)| {
        let mut block = json!({ "type": "text", "text": text });
        if let Some(mark) = cache.filter(|_| at >= first_marked) {
            block["cache_control"] = mark.clone();
        }
        block
    };
    texts.iter().enumerate().map(block).collect()
}

fn tool(tool: &ToolSpec, names: &Names) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    let given = |key: &str| tool.parameters.get(key).cloned();
    schema.insert("properties".to_owned(), given("properties").unwrap_or_else(|| json!({})));
    schema.insert("required".to_owned(), given("required").unwrap_or_else(|| json!([])));
    // Properties may refer to them.
    schema.extend(given("$defs").map(|definitions| ("$defs".to_owned(), definitions)));
    json!({ "name": names.to_wire(&tool.name), "description": tool.description, "input_schema": schema })
}

fn tool_choice(choice: &ToolChoice, names: &Names) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({ "type": "none" })),
        ToolChoice::Required => Some(json!({ "type": "any" })),
        ToolChoice::Named(name) => Some(json!({ "type": "tool", "name": names.to_wire(name) })),
    }
}

/// The conversation, which a person begins. The user's side is one message until the model speaks again: roles must alternate, and the results
/// of calls made together must stand together.
fn messages(conversation: &[Message], names: &Names) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for message in conversation {
        let (role, blocks) = match message {
            Message::User { content, .. } => ("user", content.iter().filter_map(shown).collect()),
            Message::Assistant { content, .. } => {
                ("assistant", content.iter().filter_map(|block| said(block, names)).collect())
            }
            Message::ToolResult { tool_call_id, content, is_error, .. } => {
                ("user", vec![tool_result(tool_call_id, content, *is_error)])
            }
        };
        let blocks: Vec<Value> = blocks;
        if blocks.is_empty() {
            continue;
        }
        let before = messages.last_mut().filter(|last| role == "user" && last["role"] == "user");
        match before.and_then(|last| last["content"].as_array_mut()) {
            Some(content) => content.extend(blocks),
            None => messages.push(json!({ "role": role, "content": blocks })),
        }
    }
    if messages.first().is_some_and(|first| first["role"] == "assistant") {
        messages.insert(0, json!({ "role": "user", "content": [{ "type": "text", "text": OPENING }] }));
    }
    messages
}

/// A block of the user's side. Anthropic refuses text that is blank.
fn shown(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => text_block(text),
        Block::Image { data, mime_type } => Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": mime_type, "data": data },
        })),
        Block::Thinking { .. } | Block::ToolCall { .. } => None,
    }
}

/// A block of the model's side.
fn said(block: &Block, names: &Names) -> Option<Value> {
    match block {
        Block::Text { text, .. } => text_block(text),
        Block::Thinking { thinking, thinking_signature, redacted } => match thinking_signature {
            Some(data) if *redacted => Some(json!({ "type": "redacted_thinking", "data": data })),
            Some(signature) if !signature.is_empty() => {
                Some(json!({ "type": "thinking", "thinking": thinking, "signature": signature }))
            }
            // A thought without its proof is refused as a thought.
            _ => text_block(thinking),
        },
        Block::ToolCall { id, name, arguments, .. } => {
            let input = arguments::object(arguments);
            Some(json!({ "type": "tool_use", "id": id, "name": names.to_wire(name), "input": input }))
        }
        Block::Image { .. } => None,
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn tool_result(id: &str, content: &[Block], is_error: bool) -> Value {
    let mut blocks: Vec<Value> = content.iter().filter_map(shown).collect();
    if blocks.iter().all(|block| block["type"] == "image") {
        let words = if blocks.is_empty() { NO_OUTPUT } else { "(see the image)" };
        blocks.insert(0, json!({ "type": "text", "text": words }));
    }
    json!({ "type": "tool_result", "tool_use_id": id, "content": blocks, "is_error": is_error })
}

fn mark_last_user(messages: &mut [Value], mark: &Value) {
    let last = messages.iter_mut().rfind(|message| message["role"] == "user");
    if let Some(block) = last.and_then(|message| message["content"].as_array_mut()?.last_mut()) {
        block["cache_control"] = mark.clone();
    }
}
