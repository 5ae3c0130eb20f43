//! What is offered, in plain words.

use serde_json::Value;
use tidegate_protocol::{Block, ToolResult};

/// A text that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedText {
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    pub mime_type: &'static str,
}

/// What addresses of texts look like, with `{names}` in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTemplate {
    pub uri: &'static str,
    pub name: &'static str,
    pub description: &'static str,
    pub mime_type: &'static str,
}

/// A question that is ready to be put to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPrompt {
    pub name: &'static str,
    pub description: &'static str,
    /// Names and descriptions of what it needs.
    pub arguments: &'static [(&'static str, &'static str)],
}

/// What an argument belongs to that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completing {
    /// A prompt's, by its name.
    Prompt(String),
    /// A template's, by its address.
    Template(String),
}

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub uri: String,
    pub mime_type: String,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Text(String),
    /// In base64.
    Binary(String),
}

/// A part of an answer or of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// In base64.
    Image {
        data: String,
        mime_type: String,
    },
    /// In base64.
    Audio {
        data: String,
        mime_type: String,
    },
    Document(Document),
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub ok: bool,
    pub content: Vec<Content>,
    /// The same for programs.
    pub data: Option<Value>,
}

impl From<ToolResult> for Answer {
    fn from(result: ToolResult) -> Self {
        let content = result.content.into_iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(Content::Text(text)),
            Block::Image { data, mime_type } => Some(Content::Image { data, mime_type }),
            Block::Thinking { .. } | Block::ToolCall { .. } => None,
        });
        // The protocol's older era takes nothing but an object.
        Self { ok: result.ok, content: content.collect(), data: result.data.filter(Value::is_object) }
    }
}

/// Why something could not be done at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    #[error("there is no tool {0}")]
    NoSuchTool(String),
    #[error("{0}")]
    Wrong(String),
    #[error("{0}")]
    Failed(String),
}
