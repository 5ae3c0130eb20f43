//! Tools on the wire: a call, what came of it, and how dangerous a tool is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::message::Block;

/// What a tool can do to the world at worst. Ordered: a later one is more dangerous.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, TS,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Looks at what the agent may see anyway.
    Read,
    /// Changes files of the workspace.
    Write,
    /// Fetches from the network; what is asked leaves the machine.
    Network,
    /// Starts programs, or changes things elsewhere.
    Execute,
}

/// Somebody wants a tool to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// An object; anything else is refused as `invalid_args`.
    #[ts(type = "unknown")]
    pub args: Value,
    pub source: ToolSource,
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "lowercase")]
pub enum ToolSource {
    Cli,
    Model,
    /// A person in a conversation, with the `tool:` prefix.
    User,
    Api,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub ok: bool,
    /// What the model reads.
    pub content: Vec<Block>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "unknown")]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    pub meta: ToolMeta,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ToolMeta {
    pub tool: String,
    #[ts(type = "number")]
    pub duration_ms: u64,
    /// Something was left out to keep the result short; the content says where.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    pub code: ToolErrorCode,
    pub tool: String,
    pub message: String,
    /// What stood in the way, for programs: `{ "policy": … }` when a rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "unknown")]
    pub details: Option<Value>,
}

/// The contract's three codes; everything finer is in the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorCode {
    ToolNotFound,
    InvalidArgs,
    ExecutionError,
}

impl ToolResult {
    /// The text of its content, pieces joined by line ends.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
