//! The body of a request, without its messages.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use super::super::Names;
use super::super::pieces::answer_limit;
use super::messages::{mark_last, messages};
use crate::catalogue::{MaxTokensField, ModelInfo, ThinkingFormat};
use crate::replay::{Ids, replay};
use crate::request::{CacheRetention, Request, ToolChoice, ToolSpec};
use crate::thinking::effort;

pub(super) fn body(request: &Request, model: &ModelInfo) -> Value {
    let compat = &model.compat;
    let options = &request.options;
    let ids = if compat.short_tool_ids { Ids::Nine } else { Ids::Before40 };
    let conversation = replay(&request.messages, model, ids);
    let names = Names::new(&request.tools);
    let mut messages = messages(&request.system, &conversation, model, &names);
    if compat.cache_control && options.cache != CacheRetention::None {
        mark_last(&mut messages);
    }
    let mut body = json!({ "model": model.id, "messages": messages, "stream": true });
    if compat.supports_usage_in_streaming {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if compat.supports_store {
        body["store"] = false.into();
    }
    let limit = match compat.max_tokens_field {
        MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        MaxTokensField::MaxTokens => "max_tokens",
    };
    body[limit] = answer_limit(options, model).into();
    tools(&mut body, request, model, &conversation, &names);
    thinking(&mut body, options.thinking, model);
    if let Some(temperature) = options.temperature.filter(|_| takes_temperature(options.thinking, model)) {
        body["temperature"] = temperature.into();
    }
    body
}

fn tools(body: &mut Value, request: &Request, model: &ModelInfo, conversation: &[Message], names: &Names) {
    if !model.tools {
        return;
    }
    if request.tools.is_empty() {
        // Anthropic behind a translator wants a list where the history has calls. Others refuse an empty one.
        if model.compat.cache_control && has_calls(conversation) {
            body["tools"] = json!([]);
        }
        return;
    }
    let strict = model.compat.supports_strict_mode;
    body["tools"] = request.tools.iter().map(|spec| tool(spec, strict, names)).collect();
    match &request.options.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::None => body["tool_choice"] = "none".into(),
        ToolChoice::Required => body["tool_choice"] = "required".into(),
        ToolChoice::Named(name) => {
            body["tool_choice"] = json!({ "type": "function", "function": { "name": names.to_wire(name) } });
        }
    }
}

fn tool(tool: &ToolSpec, takes_strict: bool, names: &Names) -> Value {
    let mut function = json!({
        "name": names.to_wire(&tool.name),
        "description": tool.description,
        "parameters": tool.parameters,
    });
    if takes_strict {
        // Strict schemas may have no optional parameters.
        function["strict"] = false.into();
    }
    json!({ "type": "function", "function": function })
}

fn has_calls(conversation: &[Message]) -> bool {
    let is_call = |block: &Block| matches!(block, Block::ToolCall { .. });
    conversation.iter().any(|message| message.content().iter().any(is_call))
}

fn thinking(body: &mut Value, level: ThinkingLevel, model: &ModelInfo) {
    if !model.reasoning {
        return;
    }
    let on = level != ThinkingLevel::Off;
    match model.compat.thinking_format {
        ThinkingFormat::Openai if on && model.compat.supports_reasoning_effort => {
            body["reasoning_effort"] = effort(level).into();
        }
        ThinkingFormat::Openrouter if on => body["reasoning"] = json!({ "effort": effort(level) }),
        ThinkingFormat::Openai | ThinkingFormat::Openrouter => {}
        ThinkingFormat::Zai => {
            body["thinking"] = json!({ "type": if on { "enabled" } else { "disabled" } });
        }
        ThinkingFormat::Qwen => body["enable_thinking"] = on.into(),
        ThinkingFormat::QwenChatTemplate => {
            body["chat_template_kwargs"] = json!({ "enable_thinking": on });
        }
    }
}

/// OpenAI's models that think refuse a temperature, also while they do not think.
fn takes_temperature(level: ThinkingLevel, model: &ModelInfo) -> bool {
    let compat = &model.compat;
    let like_openai = compat.thinking_format == ThinkingFormat::Openai && compat.supports_reasoning_effort;
    !(model.reasoning && (like_openai || level != ThinkingLevel::Off))
}
