//! Our request in Converse's words.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use crate::catalogue::ModelInfo;
use crate::replay::{Ids, replay};
use crate::request::{CacheRetention, Request, ToolChoice};
use crate::thinking::effort;
use crate::wire::claude::{Generation, Plan};
use crate::wire::pieces::{NO_OUTPUT, OPENING, answer_limit};
use crate::wire::{Names, arguments};

pub(super) fn body(request: &Request, model: &ModelInfo) -> Value {
    let names = Names::new(&request.tools);
    let conversation = replay(&request.messages, model, Ids::Safe64);
    let cache = cache_point(model, request.options.cache);
    let mut body = Map::new();
    let system = system(&request.system, cache.as_ref());
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), messages(&conversation, model, &names, cache.as_ref()).into());
    if let Some(tools) = tools(request, model, &conversation, &names) {
        body.insert("toolConfig".to_owned(), tools);
    }
    limits_and_thinking(&mut body, request, model, &conversation);
    Value::Object(body)
}

/// Where a prompt may be cached up to, for models that can.
fn cache_point(model: &ModelInfo, retention: CacheRetention) -> Option<Value> {
    let generation = Generation::of(&model.id);
    let can = generation.is_at_least(3, 7) || generation.is_at_least(3, 5) && model.id.contains("haiku");
    if !can || retention == CacheRetention::None {
        return None;
    }
    // The models before 4.5 know five minutes only.
    let hour = retention == CacheRetention::Long && generation.is_at_least(4, 5);
    Some(if hour {
        json!({"cachePoint": {"type": "default", "ttl": "1h"}})
    } else {
        json!({"cachePoint": {"type": "default"}})
    })
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn system(blocks: &[String], cache: Option<&Value>) -> Vec<Value> {
    let mut system: Vec<Value> =
        blocks.iter().filter(|text| !is_blank(text)).map(|text| json!({ "text": text })).collect();
    if !system.is_empty() {
        system.extend(cache.cloned());
    }
    system
}

/// Turns alternate, and a person's is first.
fn messages(conversation: &[Message], model: &ModelInfo, names: &Names, cache: Option<&Value>) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in conversation {
        let (role, blocks) = turn(message, model, names);
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_some_and(|(role, _)| *role == "assistant") {
        turns.insert(0, ("user", vec![json!({ "text": OPENING })]));
    }
    if let Some((_, content)) = turns.iter_mut().rev().find(|(role, _)| *role == "user") {
        content.extend(cache.cloned());
    }
    turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn turn(message: &Message, model: &ModelInfo, names: &Names) -> (&'static str, Vec<Value>) {
    match message {
        Message::User { content, .. } => ("user", content.iter().filter_map(said).collect()),
        Message::Assistant { content, .. } => {
            ("assistant", content.iter().filter_map(|block| answered(block, model, names)).collect())
        }
        Message::ToolResult { tool_call_id, content, is_error, .. } => {
            let mut blocks: Vec<Value> = content.iter().filter_map(said).collect();
            if blocks.is_empty() {
                blocks.push(json!({ "text": NO_OUTPUT }));
            }
            let status = if *is_error { "error" } else { "success" };
            let result = json!({ "toolUseId": tool_call_id, "content": blocks, "status": status });
            ("user", vec![json!({ "toolResult": result })])
        }
    }
}

/// A block of a person or a tool. Blank text is refused by the service, so it is left out.
fn said(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => (!is_blank(text)).then(|| json!({ "text": text })),
        Block::Image { data, mime_type } => {
            let format = mime_type.strip_prefix("image/").unwrap_or(mime_type);
            let format = if format == "jpg" { "jpeg" } else { format };
            Some(json!({ "image": { "format": format, "source": { "bytes": data } } }))
        }
        Block::Thinking { .. } | Block::ToolCall { .. } => None,
    }
}

fn answered(block: &Block, model: &ModelInfo, names: &Names) -> Option<Value> {
    match block {
        Block::Text { .. } | Block::Image { .. } => said(block),
        Block::Thinking { thinking_signature, redacted: true, .. } => {
            thinking_signature.as_ref().map(|data| json!({ "reasoningContent": { "redactedContent": data } }))
        }
        Block::Thinking { thinking, .. } if is_blank(thinking) => None,
        Block::Thinking { thinking, thinking_signature: Some(signature), .. } => {
            let text = json!({ "text": thinking, "signature": signature });
            Some(json!({ "reasoningContent": { "reasoningText": text } }))
        }
        // A Claude takes no thought back without its proof; the others know none.
        Block::Thinking { thinking, .. } if Generation::of(&model.id).is_known() => {
            Some(json!({ "text": thinking }))
        }
        Block::Thinking { thinking, .. } => {
            Some(json!({ "reasoningContent": { "reasoningText": { "text": thinking } } }))
        }
        Block::ToolCall { id, name, arguments, .. } => {
            let call = json!({ "toolUseId": id, "name": names.to_wire(name), "input": arguments::object(arguments) });
            Some(json!({ "toolUse": call }))
        }
    }
}

/// How many tokens, how much thought. Converse has no words of its own for thinking: the makers' own are passed on.
fn limits_and_thinking(
    body: &mut Map<String, Value>,
    request: &Request,
    model: &ModelInfo,
    conversation: &[Message],
) {
    let options = &request.options;
    let generation = Generation::of(&model.id);
    let mut plan = if generation.is_known() {
        generation.plan(request, model, conversation)
    } else {
        let max_tokens = answer_limit(options, model);
        Plan { max_tokens, fields: Map::new(), temperature: options.temperature }
    };
    // Thinking between calls is something the fourth generation has to be asked for.
    if plan.thinks_within_a_budget() && generation.is_at_least(4, 0) {
        plan.fields.insert("anthropic_beta".to_owned(), json!(["interleaved-thinking-2025-05-14"]));
    }
    if model.id.contains("gpt-oss") && model.reasoning && options.thinking != ThinkingLevel::Off {
        let effort = match options.thinking {
            ThinkingLevel::Off | ThinkingLevel::Minimal => "low",
            ThinkingLevel::Xhigh => "high",
            other => effort(other),
        };
        plan.fields.insert("reasoning_effort".to_owned(), effort.into());
    }
    let mut inference = json!({ "maxTokens": plan.max_tokens });
    if let Some(temperature) = plan.temperature {
        inference["temperature"] = temperature.into();
    }
    body.insert("inferenceConfig".to_owned(), inference);
    if !plan.fields.is_empty() {
        body.insert("additionalModelRequestFields".to_owned(), plan.fields.into());
    }
}

/// The tools. A history with calls in it is refused without any, so those it names are then said to exist.
fn tools(request: &Request, model: &ModelInfo, conversation: &[Message], names: &Names) -> Option<Value> {
    let mut used: Vec<&str> = Vec::new();
    for block in conversation.iter().flat_map(Message::content) {
        if let Block::ToolCall { name, .. } = block
            && !used.contains(&name.as_str())
        {
            used.push(name);
        }
    }
    let choice = &request.options.tool_choice;
    if !model.tools || request.tools.is_empty() || *choice == ToolChoice::None {
        let forbidden = || request.tools.iter().filter(|_| model.tools);
        if used.is_empty() {
            return None;
        }
        let unknown = used.iter().filter(|name| !forbidden().any(|tool| tool.name == **name));
        let unknown = unknown.map(|name| spec(&names.to_wire(name), "", &json!({ "type": "object" })));
        let known =
            forbidden().map(|tool| spec(&names.to_wire(&tool.name), &tool.description, &tool.parameters));
        return Some(json!({ "tools": known.chain(unknown).collect::<Vec<_>>() }));
    }
    let tools = request.tools.iter();
    let tools = tools.map(|tool| spec(&names.to_wire(&tool.name), &tool.description, &tool.parameters));
    let mut config = json!({ "tools": tools.collect::<Vec<_>>() });
    match choice {
        ToolChoice::Auto | ToolChoice::None => {}
        ToolChoice::Required => config["toolChoice"] = json!({ "any": {} }),
        ToolChoice::Named(name) => config["toolChoice"] = json!({ "tool": { "name": names.to_wire(name) } }),
    }
    Some(config)
}

fn spec(name: &str, description: &str, parameters: &Value) -> Value {
    let mut spec = json!({ "name": name, "inputSchema": { "json": parameters } });
    if !is_blank(description) {
        spec["description"] = json!(description);
    }
    json!({ "toolSpec": spec })
}
