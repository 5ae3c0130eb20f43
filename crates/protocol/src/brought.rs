//! What a program that asks brings along: tools of its own, and what was said before where it keeps the conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::message::Message;

/// What comes with a question besides its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct Brought {
    /// Instructions for this run, behind the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What was said before the question, the oldest first. Results at its beginning answer calls of the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Message>,
    /// The question itself where it is more than a text: it has images, or is the result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Message>,
    /// Tools that the program runs. A call of one ends the run: its result comes with the next question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<BroughtTool>,
    /// What the model is to do with the tools first.
    #[serde(skip_serializing_if = "BroughtChoice::is_free")]
    pub choice: BroughtChoice,
}

/// A tool that the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct BroughtTool {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    #[ts(type = "unknown")]
    pub parameters: Value,
}

/// What a model is to do with tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum BroughtChoice {
    /// What it likes.
    #[default]
    Free,
    /// Call one, whichever.
    Some,
    /// Call this one.
    Named(String),
}

impl BroughtChoice {
    fn is_free(&self) -> bool {
        *self == Self::Free
    }
}

impl Brought {
    /// Whether a call of this tool is the program's to run.
    pub fn runs(&self, tool: &str) -> bool {
        self.tools.iter().any(|brought| brought.name == tool)
    }

    /// The same, with every message said at this time: what is left is what was asked.
    #[must_use]
    pub fn at(&self, timestamp: i64) -> Self {
        let mut brought = self.clone();
        brought.before.iter_mut().chain(&mut brought.input).for_each(|message| message.set_time(timestamp));
        brought
    }
}
