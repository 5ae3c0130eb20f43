//! The conversation as messages with roles.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message};

use super::super::pieces::NO_OUTPUT;
use super::super::{Names, arguments};
use super::THOUGHT_FIELDS;
use crate::catalogue::{Compat, ModelInfo};

/// Stands between a tool's result and a user's message where a server wants the model to speak between them.
const BETWEEN: &str = "I have the results of the tools.";

pub(super) fn messages(
    system: &[String],
    conversation: &[Message],
    model: &ModelInfo,
    names: &Names,
) -> Vec<Value> {
    let compat = &model.compat;
    let mut out = Vec::new();
    out.extend(instructions(system, model));
    let mut images = Vec::new();
    for message in conversation {
        if !matches!(message, Message::ToolResult { .. }) {
            show_images(&mut out, &mut images, compat);
        }
        match message {
            Message::User { content, .. } => push_user(&mut out, user_content(content), compat),
            Message::Assistant { content, .. } => out.extend(assistant(content, compat, names)),
            Message::ToolResult { tool_call_id, tool_name, content, .. } => {
                images.extend(content.iter().filter_map(image));
                out.push(result(tool_call_id, &names.to_wire(tool_name), content, compat));
            }
        }
    }
    show_images(&mut out, &mut images, compat);
    out
}

/// One message: many servers take no second one, and none that is not the first.
fn instructions(system: &[String], model: &ModelInfo) -> Option<Value> {
    let texts: Vec<_> = system.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    let as_developer = model.reasoning && model.compat.supports_developer_role;
    let role = if as_developer { "developer" } else { "system" };
    (!texts.is_empty()).then(|| json!({ "role": role, "content": texts.join("\n\n") }))
}

fn push_user(out: &mut Vec<Value>, content: Option<Value>, compat: &Compat) {
    let Some(content) = content else { return };
    let after_result = out.last().is_some_and(|last| last["role"] == "tool");
    if compat.requires_assistant_after_tool_result && after_result {
        out.push(json!({ "role": "assistant", "content": BETWEEN }));
    }
    out.push(json!({ "role": "user", "content": content }));
}

/// Plain text where there is nothing else: every server takes that.
fn user_content(content: &[Block]) -> Option<Value> {
    if content.iter().any(|block| matches!(block, Block::Image { .. })) {
        return Some(content.iter().filter_map(|block| text_part(block).or_else(|| image(block))).collect());
    }
    let text = joined(content, "\n");
    (!text.is_empty()).then(|| text.into())
}

fn text_part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } if !text.is_empty() => Some(json!({ "type": "text", "text": text })),
        _ => None,
    }
}

fn image(block: &Block) -> Option<Value> {
    match block {
        Block::Image { data, mime_type } => Some(json!({
            "type": "image_url",
            "image_url": { "url": format!("data:{mime_type};base64,{data}") },
        })),
        _ => None,
    }
}

fn joined(content: &[Block], between: &str) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(between)
}

fn assistant(content: &[Block], compat: &Compat, names: &Names) -> Option<Value> {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    let mut text = joined(content, "");
    let mut calls = Vec::new();
    let mut details = Vec::new();
    let mut thoughts = Vec::new();
    for block in content {
        match block {
            Block::Thinking { thinking, thinking_signature, .. } if !thinking.trim().is_empty() => {
                thoughts.push((thinking.as_str(), thinking_signature.as_deref()));
            }
            Block::ToolCall { id, name, arguments, thought_signature } => {
                let arguments = arguments::object(arguments).to_string();
                let function = json!({ "name": names.to_wire(name), "arguments": arguments });
                calls.push(json!({ "id": id, "type": "function", "function": function }));
                let detail = thought_signature.as_deref().map(serde_json::from_str::<Value>);
                details.extend(detail.and_then(Result::ok).filter(Value::is_object));
            }
            _ => {}
        }
    }
    if compat.requires_thinking_as_text && !thoughts.is_empty() {
        let words: Vec<_> = thoughts.iter().map(|(words, _)| *words).collect();
        text = format!("<think>\n{}\n</think>\n{text}", words.join("\n"));
    } else {
        for field in THOUGHT_FIELDS {
            let here = thoughts.iter().filter(|(_, signature)| *signature == Some(field));
            let words: Vec<_> = here.map(|(words, _)| *words).collect();
            if !words.is_empty() {
                message.insert(field.to_owned(), words.join("\n").into());
            }
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    message.insert("content".to_owned(), content);
    for (field, list) in [("tool_calls", calls), ("reasoning_details", details)] {
        if !list.is_empty() {
            message.insert(field.to_owned(), list.into());
        }
    }
    Some(Value::Object(message))
}

fn result(id: &str, name: &str, content: &[Block], compat: &Compat) -> Value {
    let text = joined(content, "\n");
    let has_image = content.iter().any(|block| matches!(block, Block::Image { .. }));
    let text = match (text.is_empty(), has_image) {
        (false, _) => text.as_str(),
        (true, true) => "(see the image below)",
        (true, false) => NO_OUTPUT,
    };
    let mut message = json!({ "role": "tool", "tool_call_id": id, "content": text });
    if compat.requires_tool_result_name {
        message["name"] = name.into();
    }
    message
}

/// A tool's message has no place for images: the user shows them, once all results are told.
fn show_images(out: &mut Vec<Value>, images: &mut Vec<Value>, compat: &Compat) {
    if images.is_empty() {
        return;
    }
    let mut content = vec![json!({ "type": "text", "text": "Images from the tools' results:" })];
    content.append(images);
    push_user(out, Some(content.into()), compat);
}

/// Marks the last text of the conversation for the cache of Anthropic behind a translator.
pub(super) fn mark_last(messages: &mut [Value]) {
    let speaks = |message: &&mut Value| message["role"] == "user" || message["role"] == "assistant";
    for message in messages.iter_mut().rev().filter(speaks) {
        let content = &mut message["content"];
        if let Some(text) = content.as_str() {
            *content = json!([{ "type": "text", "text": text }]);
        }
        let mut parts = content.as_array_mut().into_iter().flatten();
        if let Some(part) = parts.rfind(|part| part["type"] == "text") {
            part["cache_control"] = json!({ "type": "ephemeral" });
            return;
        }
    }
}
