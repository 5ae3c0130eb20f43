//! How servers that speak OpenAI's completions differ from OpenAI.

use serde::Deserialize;

/// Switches of one model. The default is OpenAI itself.
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each of its own")]
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Compat {
    /// Takes `store: false`.
    pub supports_store: bool,
    /// Takes instructions as role `developer` from models that think.
    pub supports_developer_role: bool,
    pub supports_reasoning_effort: bool,
    /// Takes `stream_options.include_usage`.
    pub supports_usage_in_streaming: bool,
    /// Takes `strict` in a tool.
    pub supports_strict_mode: bool,
    pub max_tokens_field: MaxTokensField,
    /// A tool's result must name its tool.
    pub requires_tool_result_name: bool,
    /// A user's message may not follow a tool's result directly.
    pub requires_assistant_after_tool_result: bool,
    /// Thoughts are sent back as text in tags.
    pub requires_thinking_as_text: bool,
    pub thinking_format: ThinkingFormat,
    /// Tool-call ids are exactly nine letters and digits.
    pub short_tool_ids: bool,
    /// Takes Anthropic's `cache_control` in content parts.
    pub cache_control: bool,
}

impl Default for Compat {
    fn default() -> Self {
        Self {
            supports_store: true,
            supports_developer_role: true,
            supports_reasoning_effort: true,
            supports_usage_in_streaming: true,
            supports_strict_mode: true,
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            requires_tool_result_name: false,
            requires_assistant_after_tool_result: false,
            requires_thinking_as_text: false,
            thinking_format: ThinkingFormat::Openai,
            short_tool_ids: false,
            cache_control: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    MaxCompletionTokens,
    MaxTokens,
}

/// How thinking is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingFormat {
    /// `reasoning_effort`.
    Openai,
    /// `reasoning: {effort}`.
    Openrouter,
    /// `thinking: {type: enabled | disabled}`.
    Zai,
    /// `enable_thinking`.
    Qwen,
    /// `chat_template_kwargs: {enable_thinking}`.
    QwenChatTemplate,
}
