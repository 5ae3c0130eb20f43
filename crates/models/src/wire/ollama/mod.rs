//! Ollama's own format: `/api/chat`, one JSON object a line. Unlike its imitation of OpenAI's it takes the size of the
//! context, without which long conversations are cut silently.

mod decode;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use tidegate_net::{Headers, Method};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use super::pieces::words;
use super::{Decoder, Prepared, Target, Wire, arguments};
use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::replay::{Ids, replay};
use crate::request::{Request, ToolChoice};

pub(crate) struct Ollama;

impl Wire for Ollama {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let Target { model, access, .. } = target;
        let body = serde_json::to_vec(&body(request, model));
        let body = body.map_err(|error| Failure::new(FailureKind::Format, error.to_string()))?;
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        if let Some(bearer) = access.bearer() {
            headers.set_secret("authorization", &bearer);
        }
        for (name, value) in &model.headers {
            headers.set_secret(name, value);
        }
        Ok(Prepared { method: Method::Post, url: format!("{}/api/chat", model.base_url), headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(decode::Decode::new(request))
    }
}

fn body(request: &Request, model: &ModelInfo) -> Value {
    let options = &request.options;
    let mut messages: Vec<Value> = Vec::new();
    let system = request.system.iter().filter(|text| !text.trim().is_empty());
    messages.extend(system.map(|text| json!({ "role": "system", "content": text })));
    for message in &replay(&request.messages, model, Ids::Keep) {
        turn(message, &mut messages);
    }
    let most = options.max_tokens.unwrap_or(model.max_tokens).min(model.max_tokens);
    let mut settings = json!({ "num_predict": most, "num_ctx": model.context_window });
    if let Some(temperature) = options.temperature {
        settings["temperature"] = json!(temperature);
    }
    let mut body = json!({ "model": model.id, "messages": messages, "stream": true, "options": settings });
    let tools = tools(request, model);
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if model.reasoning {
        body["think"] = think(&model.id, options.thinking);
    }
    body
}

/// Most models know on and off. One family knows levels only, and is never without.
fn think(id: &str, level: ThinkingLevel) -> Value {
    if !id.contains("gpt-oss") {
        return json!(level != ThinkingLevel::Off);
    }
    json!(match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High | ThinkingLevel::Xhigh => "high",
    })
}

/// The format has no word for a choice of tools, but tools that are not named cannot be chosen.
fn tools(request: &Request, model: &ModelInfo) -> Vec<Value> {
    let choice = &request.options.tool_choice;
    let allowed = request.tools.iter().filter(|tool| match choice {
        ToolChoice::Auto | ToolChoice::Required => model.tools,
        ToolChoice::None => false,
        ToolChoice::Named(name) => model.tools && tool.name == *name,
    });
    let tools = allowed.map(|tool| {
        let function = json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        });
        json!({ "type": "function", "function": function })
    });
    tools.collect()
}

fn turn(message: &Message, messages: &mut Vec<Value>) {
    match message {
        Message::User { content, .. } => messages.push(said("user", content)),
        Message::Assistant { content, .. } => messages.push(answered(content)),
        Message::ToolResult { tool_name, content, .. } => {
            messages.push(json!({ "role": "tool", "tool_name": tool_name, "content": words(content) }));
            // Models look at pictures of people's messages only.
            let pictures: Vec<Block> =
                content.iter().filter(|block| matches!(block, Block::Image { .. })).cloned().collect();
            if !pictures.is_empty() {
                let shown = [vec![Block::text(format!("Pictures of the result of {tool_name}:"))], pictures];
                messages.push(said("user", &shown.concat()));
            }
        }
    }
}

fn said(role: &str, content: &[Block]) -> Value {
    let mut message = json!({ "role": role, "content": words(content) });
    let images = content.iter().filter_map(|block| match block {
        Block::Image { data, .. } => Some(data.as_str()),
        _ => None,
    });
    let images: Vec<&str> = images.collect();
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

fn answered(content: &[Block]) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(words(content)));
    let (mut thinking, mut calls) = (String::new(), Vec::new());
    for block in content {
        match block {
            Block::Thinking { thinking: text, redacted: false, .. } => thinking.push_str(text),
            Block::ToolCall { name, arguments, .. } => {
                calls
                    .push(json!({ "function": { "name": name, "arguments": arguments::object(arguments) } }));
            }
            _ => {}
        }
    }
    if !thinking.is_empty() {
        message.insert("thinking".to_owned(), thinking.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(message)
}
