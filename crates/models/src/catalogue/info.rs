//! One model, with everything a call needs to know about it.

use serde::Deserialize;
use tidegate_protocol::{Cost, ModelRef, ThinkingLevel, Usage};
use tidegate_secrets::Secret;

use super::compat::Compat;
use crate::thinking::budget;

/// Tokens that formats which always name a limit ask for when nobody says how long an answer may be.
const USUAL_ANSWER: u32 = 32_000;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    AnthropicMessages,
    OpenaiCompletions,
    OpenaiResponses,
    OpenaiCodexResponses,
    GoogleGenerativeAi,
    BedrockConverseStream,
    Ollama,
    Scripted,
    Offline,
}

impl Api {
    /// The name in the configuration, in rows and in `stage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenaiCompletions => "openai-completions",
            Self::OpenaiResponses => "openai-responses",
            Self::OpenaiCodexResponses => "openai-codex-responses",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::BedrockConverseStream => "bedrock-converse-stream",
            Self::Ollama => "ollama",
            Self::Scripted => "scripted",
            Self::Offline => "offline",
        }
    }
}

/// A model that can be called.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    pub provider: String,
    /// The id at the provider.
    pub id: String,
    /// The name people see.
    pub name: String,
    pub api: Api,
    /// Without a slash at the end.
    pub base_url: String,
    /// Tokens of a request and its answer together.
    pub context_window: u32,
    /// Tokens of an answer at most.
    pub max_tokens: u32,
    /// Whether it can think before it answers.
    pub reasoning: bool,
    /// Whether it reads images.
    pub images: bool,
    /// Whether it can call tools.
    pub tools: bool,
    /// Absent when nobody knows it: then nothing is charged, and a hard money limit refuses it.
    pub price: Option<Price>,
    /// Sent with every request, besides what the format needs.
    pub headers: Vec<(String, Secret)>,
    pub compat: Compat,
}

impl ModelInfo {
    pub fn reference(&self) -> ModelRef {
        ModelRef { provider: self.provider.clone(), model: self.id.clone() }
    }

    /// Tokens of the longest answer that a call may bring, thoughts included.
    pub fn longest_answer(&self, asked: Option<u32>, thinking: ThinkingLevel) -> u32 {
        let base = match self.api {
            // Takes no limit.
            Api::OpenaiCodexResponses => self.max_tokens,
            Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Ollama => asked.unwrap_or(self.max_tokens),
            _ => asked.unwrap_or(USUAL_ANSWER),
        };
        match self.api {
            Api::AnthropicMessages | Api::BedrockConverseStream if self.reasoning => {
                budget(thinking, base.min(self.max_tokens), self.max_tokens).max_tokens
            }
            _ => base.min(self.max_tokens),
        }
    }
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Price {
    /// What these tokens cost.
    pub fn of(&self, usage: &Usage) -> Cost {
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        #[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
        let dollars: f64 = parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum();
        Cost::from_usd(dollars)
    }
}
