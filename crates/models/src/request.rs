//! What a model is asked, in our own words. A wire format turns it into a vendor's.

use serde_json::Value;
use tidegate_protocol::{Message, ThinkingLevel};

/// One question, with all that belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Instructions, oldest first. Each is a block of its own where a provider caches blocks, so what changes often
    /// comes last.
    pub system: Vec<String>,
    /// The conversation, oldest first; the last one is what to answer.
    pub messages: Vec<Message>,
    /// The tools the model may call, in a stable order: a changed list empties the provider's cache.
    pub tools: Vec<ToolSpec>,
    pub options: Options,
    /// How the conversation is called where a person sees it; also the provider's cache key.
    pub session_name: String,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub parameters: Value,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Tokens of the answer at most; the model's limit when absent.
    pub max_tokens: Option<u32>,
    pub temperature: Option<f32>,
    pub thinking: ThinkingLevel,
    pub tool_choice: ToolChoice,
    pub cache: CacheRetention,
    /// Asked for now, also when every credential rests after a failure: somebody wants to know whether it works again.
    pub insist: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    /// Some tool.
    Required,
    Named(String),
}

/// How long a provider should keep the prompt cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRetention {
    None,
    #[default]
    Short,
    Long,
}
