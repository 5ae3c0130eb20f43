//! What a request consists of, for whoever wonders where the tokens go.

use tidegate_models::ToolSpec;

use super::estimate::{IMAGE, characters, count, tokens};
use super::files;
use super::history::Line;
use super::system::{Scene, rules, system};

/// What a request consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// All instructions together: the rules, the files, the task, and what joins them.
    pub system: Part,
    /// The pieces of the rules.
    pub sections: Vec<Part>,
    pub files: Vec<FileReport>,
    /// Each tool with its description and schema.
    pub tools: Vec<Part>,
    /// The conversation.
    pub history: Part,
    pub messages: usize,
}

/// A piece and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub chars: u64,
    /// Estimated.
    pub tokens: u64,
}

/// A file of the workspace and how much of it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    pub name: String,
    pub chars: u64,
    pub shown: Part,
}

impl Part {
    fn new(name: &str, chars: u64) -> Self {
        Self { name: name.to_owned(), chars, tokens: tokens(chars) }
    }
}

impl ContextReport {
    /// Tokens of all of it.
    pub fn tokens(&self) -> u64 {
        let tools: u64 = self.tools.iter().map(|tool| tool.tokens).sum();
        self.system.tokens + tools + self.history.tokens
    }
}

/// What a request in this scene, with these tools and this conversation, consists of.
pub fn report(scene: &Scene, tools: &[ToolSpec], lines: &[Line]) -> ContextReport {
    let files = files::shown(scene).into_iter().map(|file| FileReport {
        name: file.name.to_owned(),
        chars: u64::try_from(file.all).unwrap_or(u64::MAX),
        shown: Part::new(file.name, count(&file.text)),
    });
    let tool_size =
        |tool: &ToolSpec| count(&tool.name) + count(&tool.description) + count(&tool.parameters.to_string());
    ContextReport {
        system: Part::new("system", system(scene, tools).iter().map(|block| count(block)).sum()),
        sections: rules(scene, tools).iter().map(|part| Part::new(part.name, count(&part.text))).collect(),
        files: files.collect(),
        tools: tools.iter().map(|tool| Part::new(&tool.name, tool_size(tool))).collect(),
        history: Part::new("history", lines.iter().map(|line| characters(&line.message, IMAGE)).sum()),
        messages: lines.len(),
    }
}
