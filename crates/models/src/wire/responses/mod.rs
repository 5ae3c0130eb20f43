//! OpenAI's Responses, as OpenAI itself, Azure and others serve it. Nothing is stored at the provider: every request
//! carries the whole conversation, the model's own sealed thoughts included.

mod decode;
#[cfg(test)]
pub(super) mod fixtures;
mod items;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use tidegate_net::{Headers, Method};
use tidegate_protocol::ThinkingLevel;

use super::{Decoder, Names, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::classify::classify;
use crate::digest::short;
use crate::failure::Failure;
use crate::frames::Framing;
use crate::request::{CacheRetention, Request, ToolChoice};
use crate::thinking;
pub(super) use decode::ResponsesDecoder;
pub(super) use items::conversation;

pub(crate) struct OpenaiResponses;

impl Wire for OpenaiResponses {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        Ok(Prepared {
            method: Method::Post,
            url: format!("{}/responses", target.model.base_url),
            headers: headers(target),
            body: Value::Object(body(request, target.model)).to_string().into_bytes(),
        })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(Names::new(&request.tools), |error| {
            classify(None, &error.to_string())
        }))
    }
}

/// What every request of this family is sent with. What the model's entry says counts more.
pub(super) fn headers(target: &Target<'_>) -> Headers {
    let mut headers = Headers::default();
    headers.set("content-type", "application/json");
    headers.set("accept", "text/event-stream");
    if let Some(bearer) = target.access.bearer() {
        headers.set_secret("authorization", &bearer);
    }
    for (name, value) in &target.model.headers {
        headers.set_secret(name, value);
    }
    headers
}

fn body(request: &Request, model: &ModelInfo) -> Map<String, Value> {
    let names = Names::new(&request.tools);
    let options = &request.options;
    let mut input = instructions(request, model);
    input.extend(conversation(request, model, &names));
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    body.insert("input".into(), Value::Array(input));
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    if !request.tools.is_empty() {
        body.insert("tools".into(), tools(request, &names, &json!(false)));
        body.insert("tool_choice".into(), tool_choice(&options.tool_choice, &names));
    }
    if model.reasoning {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        let level = thinking::clamp(options.thinking, model);
        if let Some(effort) = thinking::openai_effort(&model.id, level) {
            body.insert("reasoning".into(), reasoning(effort));
        }
    } else if let Some(temperature) = options.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(most) = options.max_tokens {
        body.insert("max_output_tokens".into(), json!(output_limit(most, model)));
    }
    if let Some(key) = cache_key(request) {
        body.insert("prompt_cache_key".into(), json!(key));
        if options.cache == CacheRetention::Long && is_openai(&model.base_url) {
            body.insert("prompt_cache_retention".into(), json!("24h"));
        }
    }
    body
}

/// The server takes no limit below 16.
fn output_limit(most: u32, model: &ModelInfo) -> u32 {
    most.min(model.max_tokens).max(16)
}

/// What is thought is summed up for people, unless there are no thoughts.
pub(super) fn reasoning(effort: &str) -> Value {
    if effort == thinking::effort(ThinkingLevel::Off) {
        json!({ "effort": effort })
    } else {
        json!({ "effort": effort, "summary": "auto" })
    }
}

fn instructions(request: &Request, model: &ModelInfo) -> Vec<Value> {
    let developer = model.reasoning && model.compat.supports_developer_role;
    let role = if developer { "developer" } else { "system" };
    let system = request.system.iter().filter(|text| !text.is_empty());
    system.map(|text| json!({ "role": role, "content": text })).collect()
}

pub(super) fn tools(request: &Request, names: &Names, strict: &Value) -> Value {
    let tools = request.tools.iter().map(|tool| {
        json!({
            "type": "function",
            "name": names.to_wire(&tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": strict,
        })
    });
    Value::Array(tools.collect())
}

pub(super) fn tool_choice(choice: &ToolChoice, names: &Names) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({ "type": "function", "name": names.to_wire(name) }),
    }
}

/// Requests of one key are sent where their beginning is cached. At most 64 characters, and such as a header may carry.
pub(super) fn cache_key(request: &Request) -> Option<String> {
    const MOST: usize = 64;
    let name = &request.session_name;
    if request.options.cache == CacheRetention::None || name.is_empty() {
        return None;
    }
    let fits = name.len() <= MOST && name.chars().all(|c| c.is_ascii_graphic());
    Some(if fits { name.clone() } else { short(name, 40) })
}

fn is_openai(base_url: &str) -> bool {
    let host = base_url.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next());
    host == Some("api.openai.com")
}
