//! A whole conversation as one file, for people or for programs. Pure; what looks like a credential is blotted out.

mod html;
mod markdown;
mod story;
#[cfg(test)]
mod tests;

use serde_json::Value;
use tidegate_protocol::Entry;
use tidegate_runtime::redact;
use tidegate_storage::SessionRow;

use crate::transcript;
use story::Story;

/// What the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    Markdown,
    /// The lines of a transcript file, those that a fork shares with its parent among them.
    Jsonl,
    /// One page that needs nothing else.
    Html,
}

impl ExportFormat {
    pub const NAMES: [&'static str; 3] = ["markdown", "jsonl", "html"];

    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "markdown" => Self::Markdown,
            "jsonl" => Self::Jsonl,
            "html" => Self::Html,
            _ => return None,
        })
    }
}

/// Renders a conversation with all its lines, the oldest first.
pub fn export(row: &SessionRow, entries: &[Entry], format: ExportFormat) -> String {
    match format {
        ExportFormat::Markdown => markdown::render(&Story::of(row, entries)),
        ExportFormat::Html => html::render(&Story::of(row, entries)),
        ExportFormat::Jsonl => jsonl(row, entries),
    }
}

fn jsonl(row: &SessionRow, entries: &[Entry]) -> String {
    let name = row.alias.clone().unwrap_or_else(|| row.id.to_string());
    let mut text = transcript::header(&name, row.created_at, "");
    for entry in entries {
        let line = transcript::line(entry);
        match serde_json::from_str::<Value>(&line) {
            Ok(value) => {
                text.push_str(&blotted(value).to_string());
                text.push('\n');
            }
            // Cannot happen: it was just written.
            Err(_) => text.push_str(&redact(&line)),
        }
    }
    text
}

/// The same value without what looks like a credential.
fn blotted(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(blotted).collect()),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, blotted(value))).collect(),
        other => other,
    }
}
