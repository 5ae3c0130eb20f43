//! Our request in Converse's words.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use crate::catalogue::ModelInfo;
use crate::replay::{Ids, replay};
use crate::request::{CacheRetention, Options, Request, ToolChoice};
use crate::thinking::{budget, effort};
use crate::wire::Names;
use crate::wire::pieces::{NO_OUTPUT, OPENING, object};

/// Tokens of an answer when nobody asks for another number.
const USUAL_ANSWER: u32 = 32_000;

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
    body.insert("inferenceConfig".to_owned(), inference(&request.options, model));
    if let Some(tools) = tools(request, model, &conversation, &names) {
        body.insert("toolConfig".to_owned(), tools);
    }
    if let Some(thinking) = thinking(request.options.thinking, model, limits(&request.options, model).1) {
        body.insert("additionalModelRequestFields".to_owned(), thinking);
    }
    Value::Object(body)
}

/// A Claude's version from its id, as 4 and 6; older and newer ids have it in other places, with a date behind it.
fn claude(id: &str) -> Option<(u32, u32)> {
    let after = id.split_once("claude-")?.1;
    let mut numbers =
        after.split(['-', ':']).map(|part| part.parse::<u32>().ok().filter(|number| *number < 100));
    let major = numbers.find_map(|number| number)?;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

/// Where a prompt may be cached up to, for models that can.
fn cache_point(model: &ModelInfo, retention: CacheRetention) -> Option<Value> {
    let version = claude(&model.id)?;
    let can = version >= (3, 7) || version == (3, 5) && model.id.contains("haiku");
    if !can || retention == CacheRetention::None {
        return None;
    }
    // The models before 4.5 know five minutes only.
    let hour = retention == CacheRetention::Long && version >= (4, 5);
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
        Block::Thinking { thinking, .. } if claude(&model.id).is_some() => Some(json!({ "text": thinking })),
        Block::Thinking { thinking, .. } => {
            Some(json!({ "reasoningContent": { "reasoningText": { "text": thinking } } }))
        }
        Block::ToolCall { id, name, arguments, .. } => {
            let call = json!({ "toolUseId": id, "name": names.to_wire(name), "input": object(arguments) });
            Some(json!({ "toolUse": call }))
        }
    }
}

/// Tokens of the whole answer, and of the thinking within it.
fn limits(options: &Options, model: &ModelInfo) -> (u32, u32) {
    let base = options.max_tokens.unwrap_or(USUAL_ANSWER).min(model.max_tokens);
    if !thinks(options.thinking, model) || claude(&model.id).is_none_or(|version| version >= (4, 6)) {
        return (base, 0);
    }
    let budget = budget(options.thinking, base, model.max_tokens);
    (budget.max_tokens, budget.thinking)
}

fn thinks(level: ThinkingLevel, model: &ModelInfo) -> bool {
    model.reasoning && level != ThinkingLevel::Off
}

fn inference(options: &Options, model: &ModelInfo) -> Value {
    let mut config = json!({ "maxTokens": limits(options, model).0 });
    // A Claude that thinks does not take a temperature.
    let fixed = thinks(options.thinking, model) && claude(&model.id).is_some();
    if let Some(temperature) = options.temperature.filter(|_| !fixed) {
        config["temperature"] = json!(temperature);
    }
    config
}

/// How the makers of a model are asked for thinking: Converse has no words of its own for it.
fn thinking(level: ThinkingLevel, model: &ModelInfo, tokens: u32) -> Option<Value> {
    if !thinks(level, model) {
        return None;
    }
    match claude(&model.id) {
        Some(version) if version >= (4, 6) => {
            let effort = match level {
                ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
                ThinkingLevel::Xhigh if model.id.contains("opus") => "max",
                ThinkingLevel::Xhigh => "high",
                other => effort(other),
            };
            Some(json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": effort } }))
        }
        Some(version) => {
            let enabled = json!({ "type": "enabled", "budget_tokens": tokens });
            // Thinking between calls is something the fourth generation has to be asked for.
            Some(if version >= (4, 0) {
                json!({ "thinking": enabled, "anthropic_beta": ["interleaved-thinking-2025-05-14"] })
            } else {
                json!({ "thinking": enabled })
            })
        }
        None if model.id.contains("gpt-oss") => {
            let effort = match level {
                ThinkingLevel::Off | ThinkingLevel::Minimal => "low",
                ThinkingLevel::Xhigh => "high",
                other => effort(other),
            };
            Some(json!({ "reasoning_effort": effort }))
        }
        None => None,
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
