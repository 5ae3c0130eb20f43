//! The message model: what a model reads and writes, in memory, in the log and on our own wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Message {
    User {
        content: Vec<Block>,
        /// Milliseconds since the epoch.
        #[ts(type = "number")]
        timestamp: i64,
    },
    Assistant {
        content: Vec<Block>,
        #[serde(flatten)]
        origin: Origin,
        usage: Usage,
        stop_reason: StopReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        #[ts(type = "number")]
        timestamp: i64,
    },
    ToolResult {
        tool_call_id: String,
        tool_name: String,
        content: Vec<Block>,
        is_error: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[ts(type = "unknown")]
        details: Option<Value>,
        #[ts(type = "number")]
        timestamp: i64,
    },
}

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    User,
    Assistant,
    ToolResult,
}

/// Which model answered, and how `ask` names the way there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    pub api: String,
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// The contract's short name of the way taken: the provider, or `echo` and `summary` offline.
    pub route: String,
    /// The contract's long name: `adapter.<api>.<profile>`, or `adapter.stub.<route>` offline.
    pub stage: String,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<String>,
    },
    Image {
        /// Base64.
        data: String,
        mime_type: String,
    },
    ToolCall {
        id: String,
        name: String,
        #[ts(type = "unknown")]
        arguments: Value,
    },
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    Stop,
    Length,
    ToolUse,
    Error,
    Aborted,
}

/// Tokens of one model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    #[ts(type = "number")]
    pub input: u64,
    #[ts(type = "number")]
    pub output: u64,
    #[ts(type = "number")]
    pub cache_read: u64,
    #[ts(type = "number")]
    pub cache_write: u64,
    pub cost: Cost,
}

/// Money in millionths of a US dollar: sums of it stay exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(transparent)]
pub struct Cost(#[ts(type = "number")] pub u64);

impl Message {
    /// A user's plain text.
    pub fn user(text: impl Into<String>, timestamp: i64) -> Self {
        Self::User { content: vec![Block::Text { text: text.into() }], timestamp }
    }

    pub fn role(&self) -> Role {
        match self {
            Self::User { .. } => Role::User,
            Self::Assistant { .. } => Role::Assistant,
            Self::ToolResult { .. } => Role::ToolResult,
        }
    }

    pub fn content(&self) -> &[Block] {
        match self {
            Self::User { content, .. }
            | Self::Assistant { content, .. }
            | Self::ToolResult { content, .. } => content,
        }
    }

    pub fn timestamp(&self) -> i64 {
        match self {
            Self::User { timestamp, .. }
            | Self::Assistant { timestamp, .. }
            | Self::ToolResult { timestamp, .. } => *timestamp,
        }
    }

    /// The text blocks joined; what a person reads.
    pub fn text(&self) -> String {
        self.content()
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_has_the_written_wire_form() {
        let answer = Message::Assistant {
            content: vec![Block::Text { text: "hi".into() }],
            origin: Origin {
                api: "offline".into(),
                provider: "offline".into(),
                model: "echo".into(),
                profile_id: None,
                route: "echo".into(),
                stage: "adapter.stub.echo".into(),
            },
            usage: Usage { input: 3, output: 1, ..Usage::default() },
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: 7,
        };
        let wire = json!({
            "role": "assistant",
            "content": [{"type": "text", "text": "hi"}],
            "api": "offline", "provider": "offline", "model": "echo",
            "route": "echo", "stage": "adapter.stub.echo",
            "usage": {"input": 3, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": 0},
            "stopReason": "stop",
            "timestamp": 7,
        });
        assert_eq!(serde_json::to_value(&answer).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Message>(wire).unwrap(), answer);
    }
}
