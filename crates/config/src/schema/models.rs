//! Section `models`: the providers that models are called at.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Models {
    /// Providers by name; the name is the first part of `provider/model`.
    pub providers: BTreeMap<String, Provider>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// The wire format the provider speaks.
    pub api: ModelApi,
    /// Where it is reached, as `https://host/path`; required for every `api` but `offline`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub base_url: Option<String>,
    /// The key sent with every request; write `${VAR}` to keep it out of the file.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The provider's models, where something is to be said about them.
    #[serde(default)]
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
    /// The built-in model that needs no network.
    Offline,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// The model's id at the provider.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The name people see.
    #[serde(default)]
    pub name: Option<String>,
    /// Tokens that fit into a request and its answer.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub context_window: Option<u32>,
    /// Tokens of an answer at most.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
}
