//! Section `models`: the providers that models are called at, and what of them may be used.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

/// Providers that are known without being configured; `crates/models/data` describes them.
pub const KNOWN_PROVIDERS: &[&str] = &[
    "amazon-bedrock",
    "anthropic",
    "azure-openai",
    "cerebras",
    "chutes",
    "deepseek",
    "fireworks",
    "github-copilot",
    "google",
    "groq",
    "huggingface",
    "kimi-coding",
    "llamacpp",
    "lmstudio",
    "minimax",
    "minimax-cn",
    "mistral",
    "moonshot",
    "nvidia",
    "offline",
    "ollama",
    "openai",
    "openai-codex",
    "opencode",
    "openrouter",
    "perplexity",
    "qwen-portal",
    "sambanova",
    "synthetic",
    "together",
    "venice",
    "vercel-ai-gateway",
    "vllm",
    "xai",
    "zai",
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Models {
    /// Providers by name; the name is the first part of `provider/model`. A known provider needs no entry here; an entry
    /// adds to what is known of it and overrides it.
    pub providers: BTreeMap<String, Provider>,
    /// Which models may be used at all. Agents can only narrow it.
    pub policy: ModelPolicy,
    /// Seconds to wait for a connection.
    #[schemars(range(min = 1, max = 600))]
    pub connect_timeout_seconds: u32,
    /// Seconds without a byte after which a call is given up.
    #[schemars(range(min = 1, max = 3600))]
    pub idle_timeout_seconds: u32,
    /// How often a call that failed for a passing reason is tried again with the same model and credential.
    #[schemars(range(max = 10))]
    pub retries: u32,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            policy: ModelPolicy::default(),
            connect_timeout_seconds: 10,
            idle_timeout_seconds: 120,
            retries: 2,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Provider {
    /// The wire format the provider speaks; required for one that is not known by name.
    pub api: Option<ModelApi>,
    /// Where it is reached, as `https://host/path`; required for one that is not known by name.
    #[schemars(length(min = 1))]
    pub base_url: Option<String>,
    /// The key sent with every request; write `${VAR}` to keep it out of the file. A login or key of `auth login` comes
    /// first.
    pub api_key: Option<Secret>,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// The region, for `bedrock-converse-stream`.
    #[schemars(length(min = 1))]
    pub region: Option<String>,
    /// The file with the answers, for `scripted`.
    #[schemars(length(min = 1))]
    pub script: Option<String>,
    /// How the server differs from OpenAI, for `openai-completions`.
    pub compat: ModelCompat,
    /// The provider's models, where something is to be said about them.
    pub models: Vec<Model>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelApi {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI chat completions, and the many servers that speak it.
    OpenaiCompletions,
    /// OpenAI Responses.
    OpenaiResponses,
    /// OpenAI Responses with a ChatGPT account.
    OpenaiCodexResponses,
    /// Google Gemini.
    GoogleGenerativeAi,
    /// Amazon Bedrock.
    BedrockConverseStream,
    /// Ollama's own API.
    Ollama,
    /// Answers from a file, for demonstrations and tests.
    Scripted,
    /// The built-in model that needs no network.
    Offline,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// The model's id at the provider.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The name people see.
    #[serde(default)]
    pub name: Option<String>,
    /// The wire format, where it differs from the provider's.
    #[serde(default)]
    pub api: Option<ModelApi>,
    /// Tokens that fit into a request and its answer.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub context_window: Option<u32>,
    /// Tokens of an answer at most.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Whether it can think before it answers.
    #[serde(default)]
    pub reasoning: Option<bool>,
    /// What it reads.
    #[serde(default)]
    pub input: Option<Vec<ModelInput>>,
    /// Whether it can call tools.
    #[serde(default)]
    pub tools: Option<bool>,
    /// What a million tokens cost.
    #[serde(default)]
    pub cost: Option<ModelCost>,
    /// How the server differs from OpenAI for this model.
    #[serde(default)]
    pub compat: ModelCompat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelInput {
    /// Words.
    Text,
    /// Pictures.
    Image,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelCost {
    /// US dollars for a million tokens sent.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// US dollars for a million tokens of answers.
    #[schemars(range(min = 0.0))]
    pub output: f64,
    /// US dollars for a million tokens read from the provider's cache.
    #[schemars(range(min = 0.0))]
    pub cache_read: f64,
    /// US dollars for a million tokens written to the provider's cache.
    #[schemars(range(min = 0.0))]
    pub cache_write: f64,
}

/// Only what is set overrides what is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelCompat {
    /// Takes `store: false`.
    pub supports_store: Option<bool>,
    /// Takes instructions as role `developer`.
    pub supports_developer_role: Option<bool>,
    /// Takes `reasoning_effort`.
    pub supports_reasoning_effort: Option<bool>,
    /// Takes `stream_options.include_usage`.
    pub supports_usage_in_streaming: Option<bool>,
    /// Takes `strict` in a tool.
    pub supports_strict_mode: Option<bool>,
    /// The name of the key with the most tokens of an answer.
    pub max_tokens_field: Option<MaxTokensField>,
    /// A tool's result must name its tool.
    pub requires_tool_result_name: Option<bool>,
    /// A person's message may not follow a tool's result directly.
    pub requires_assistant_after_tool_result: Option<bool>,
    /// Thoughts are sent back as text.
    pub requires_thinking_as_text: Option<bool>,
    /// How thinking is asked for.
    pub thinking_format: Option<ThinkingFormat>,
    /// Tool-call ids are exactly nine letters and digits.
    pub short_tool_ids: Option<bool>,
    /// Takes `cache_control` in content.
    pub cache_control: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// As OpenAI calls it today.
    MaxCompletionTokens,
    /// As most others do.
    MaxTokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingFormat {
    /// `reasoning_effort`.
    Openai,
    /// `reasoning: {effort}`.
    Openrouter,
    /// `thinking: {type}`.
    Zai,
    /// `enable_thinking`.
    Qwen,
    /// `chat_template_kwargs: {enable_thinking}`.
    QwenChatTemplate,
}

/// What is not named is not restricted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelPolicy {
    /// Only these providers.
    pub allowed_providers: Option<Vec<String>>,
    /// Only these models, as `provider/model`; `*` stands for any text.
    pub allowed_models: Option<Vec<String>>,
    /// Never these, whatever else allows them.
    pub denied_models: Vec<String>,
    /// Models to try after the configured ones, as `provider/model`.
    pub fallback: Vec<String>,
    /// What one run may cost, in US dollars.
    #[schemars(range(min = 0.0))]
    pub max_cost_per_run_usd: Option<f64>,
    /// Milliseconds one call of a model may take.
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u32>,
}
