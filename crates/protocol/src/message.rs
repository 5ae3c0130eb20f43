//! The message model: what a model reads and writes, in memory, in the log and on our own wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Block {
    Text {
        text: String,
        /// What its provider wants back with it, opaque.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text_signature: Option<String>,
    },
    Thinking {
        thinking: String,
        /// The provider's proof, or the whole of its own form: only the same model can read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<String>,
        /// The provider hid the words; the signature holds them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    Image {
        /// Base64.
        data: String,
        mime_type: String,
    },
    ToolCall {
        id: String,
        name: String,
        /// An object; a string when the model wrote something that is no JSON.
        #[ts(type = "unknown")]
        arguments: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thought_signature: Option<String>,
    },
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), text_signature: None }
    }
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
    /// No model wrote it: somebody put it there.
    Injected,
}

/// Tokens of one model call, each counted in exactly one of the four.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
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

impl Usage {
    /// All tokens, whatever they cost.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// The tokens that were sent, cached or not.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cost = Cost(self.cost.0.saturating_add(other.cost.0));
    }
}

/// Money in billionths of a US dollar: one token of the cheapest model is still a whole number of them, and sums stay
/// exact.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, TS,
)]
#[serde(transparent)]
pub struct Cost(#[ts(type = "number")] pub u64);

impl Cost {
    /// Billionths in a dollar.
    const A_DOLLAR: f64 = 1e9;

    /// Negative and absurd amounts become the nearest possible one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, which is meant"
    )]
    pub fn from_usd(dollars: f64) -> Self {
        Self((dollars * Self::A_DOLLAR).round() as u64)
    }

    #[expect(clippy::cast_precision_loss, reason = "shown, not summed")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / Self::A_DOLLAR
    }
}

impl Message {
    /// A user's plain text.
    pub fn user(text: impl Into<String>, timestamp: i64) -> Self {
        Self::User { content: vec![Block::text(text)], timestamp }
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

    pub(crate) fn set_time(&mut self, at: i64) {
        match self {
            Self::User { timestamp, .. }
            | Self::Assistant { timestamp, .. }
            | Self::ToolResult { timestamp, .. } => *timestamp = at,
        }
    }

    /// The text blocks joined; what a person reads.
    pub fn text(&self) -> String {
        self.content()
            .iter()
            .filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
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
            content: vec![Block::text("hi")],
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
