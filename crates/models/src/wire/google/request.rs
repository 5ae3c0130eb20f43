//! Our request in Gemini's words.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use crate::catalogue::ModelInfo;
use crate::replay::{Ids, replay};
use crate::request::{Options, Request, ToolChoice};
use crate::thinking::{GoogleThinking, google_thinking};
use crate::wire::pieces::{NO_OUTPUT, OPENING, words};
use crate::wire::{Names, arguments};

/// Takes the place of a signature that a call should have and has not, as of another model's. Google's own word.
const UNSIGNED: &str = "skip_thought_signature_validator";

pub(super) fn body(request: &Request, model: &ModelInfo) -> Value {
    let names = Names::new(&request.tools);
    let mut body = Map::new();
    let contents = contents(&replay(&request.messages, model, Ids::Plain40), model, &names);
    body.insert("contents".to_owned(), contents.into());
    let system = request.system.iter().filter(|text| !text.trim().is_empty());
    let system: Vec<Value> = system.map(|text| json!({ "text": text })).collect();
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({ "parts": system }));
    }
    if model.tools && !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let name = names.to_wire(&tool.name);
            json!({ "name": name, "description": tool.description, "parametersJsonSchema": tool.parameters })
        });
        let tools = json!([{ "functionDeclarations": tools.collect::<Vec<_>>() }]);
        body.insert("tools".to_owned(), tools);
        let choice = choice(&request.options.tool_choice, &names);
        body.insert("toolConfig".to_owned(), json!({ "functionCallingConfig": choice }));
    }
    body.insert("generationConfig".to_owned(), generation(&request.options, model));
    Value::Object(body)
}

fn choice(choice: &ToolChoice, names: &Names) -> Value {
    match choice {
        ToolChoice::Auto => json!({ "mode": "AUTO" }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::Named(name) => json!({ "mode": "ANY", "allowedFunctionNames": [names.to_wire(name)] }),
    }
}

fn generation(options: &Options, model: &ModelInfo) -> Value {
    let most = options.max_tokens.unwrap_or(model.max_tokens).min(model.max_tokens);
    let mut config = json!({ "maxOutputTokens": most });
    if let Some(temperature) = options.temperature {
        config["temperature"] = json!(temperature);
    }
    if model.reasoning {
        let mut thinking = match google_thinking(&model.id, options.thinking) {
            GoogleThinking::Budget(tokens) => json!({ "thinkingBudget": tokens }),
            GoogleThinking::Level(level) => json!({ "thinkingLevel": level }),
        };
        // Some models are never without thinking; then at least nobody has to read it.
        thinking["includeThoughts"] = json!(options.thinking != ThinkingLevel::Off);
        config["thinkingConfig"] = thinking;
    }
    config
}

fn is_gemini_3(model: &ModelInfo) -> bool {
    model.id.contains("gemini-3")
}

/// Turns alternate, and a person's is first.
fn contents(conversation: &[Message], model: &ModelInfo, names: &Names) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut add = |role: &'static str, parts: Vec<Value>| match turns.last_mut() {
        _ if parts.is_empty() => {}
        Some((last, content)) if *last == role => content.extend(parts),
        _ => turns.push((role, parts)),
    };
    let mut rest = conversation;
    while let Some((message, after)) = rest.split_first() {
        rest = after;
        match message {
            Message::User { content, .. } => add("user", content.iter().filter_map(said).collect()),
            Message::Assistant { content, .. } => {
                let parts = content.iter().filter_map(|block| answered(block, model, names));
                add("model", parts.collect());
                let count = rest.iter().take_while(|message| is_result(message)).count();
                let (results, after) = rest.split_at(count);
                rest = after;
                add("user", responses(content, results, model, names));
            }
            // Without its call a result means nothing to this vendor.
            Message::ToolResult { .. } => {}
        }
    }
    if turns.first().is_some_and(|(role, _)| *role == "model") {
        turns.insert(0, ("user", vec![json!({ "text": OPENING })]));
    }
    turns.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts })).collect()
}

fn is_result(message: &Message) -> bool {
    matches!(message, Message::ToolResult { .. })
}

fn said(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => (!text.is_empty()).then(|| json!({ "text": text })),
        Block::Image { data, mime_type } => {
            Some(json!({ "inlineData": { "mimeType": mime_type, "data": data } }))
        }
        Block::Thinking { .. } | Block::ToolCall { .. } => None,
    }
}

fn answered(block: &Block, model: &ModelInfo, names: &Names) -> Option<Value> {
    let (part, signature) = match block {
        Block::Text { text, text_signature } if !text.is_empty() => (json!({ "text": text }), text_signature),
        Block::Thinking { thinking, thinking_signature, redacted: false } if !thinking.is_empty() => {
            (json!({ "text": thinking, "thought": true }), thinking_signature)
        }
        Block::ToolCall { name, arguments, thought_signature, .. } => {
            let call = json!({ "name": names.to_wire(name), "args": arguments::object(arguments) });
            (json!({ "functionCall": call }), thought_signature)
        }
        Block::Image { .. } => return said(block),
        Block::Text { .. } | Block::Thinking { .. } => return None,
    };
    let signature = signature.as_deref().filter(|signature| is_base64(signature));
    let needed = matches!(block, Block::ToolCall { .. }) && is_gemini_3(model);
    let mut part = part;
    if let Some(signature) = signature.or(needed.then_some(UNSIGNED)) {
        part["thoughtSignature"] = json!(signature);
    }
    Some(part)
}

/// Whether it can be a signature of this vendor's: another form is refused together with the whole request.
fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// The results of an answer's calls. They have no ids on this wire, so they go in the order of the calls.
fn responses(calls: &[Block], results: &[Message], model: &ModelInfo, names: &Names) -> Vec<Value> {
    let place = |wanted: &str| {
        calls.iter().position(|block| matches!(block, Block::ToolCall { id, .. } if id == wanted))
    };
    let mut placed: Vec<(usize, &Message)> = Vec::new();
    for message in results {
        if let Message::ToolResult { tool_call_id, .. } = message {
            placed.extend(place(tool_call_id).map(|place| (place, message)));
        }
    }
    placed.sort_by_key(|(place, _)| *place);
    let (mut parts, mut pictures) = (Vec::new(), Vec::new());
    for (_, message) in placed {
        let Message::ToolResult { tool_name, content, is_error, .. } = message else { continue };
        let images: Vec<Value> =
            content.iter().filter(|block| matches!(block, Block::Image { .. })).filter_map(said).collect();
        let mut text = words(content);
        if text.is_empty() {
            NO_OUTPUT.clone_into(&mut text);
        }
        let field = if *is_error { "error" } else { "output" };
        let mut response = json!({ "name": names.to_wire(tool_name), "response": { field: text } });
        // Only the newest models look at pictures inside a result.
        if is_gemini_3(model) && !images.is_empty() {
            response["parts"] = images.into();
        } else {
            pictures.extend(images);
        }
        parts.push(json!({ "functionResponse": response }));
    }
    if !pictures.is_empty() {
        parts.push(json!({ "text": "Pictures of the results above:" }));
        parts.append(&mut pictures);
    }
    parts
}
