//! `sessions show`: what was said, line by line, with the numbers that `fork` and `edit` take.

use std::process::ExitCode;

use serde_json::json;
use tidegate_protocol::{Block, Entry, EntryBody, Message};
use tidegate_runtime::iso_timestamp;

use super::{limit, read, session_json};
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::output::{print_json, print_line, printable};
use crate::{Outcome, texts};

/// Characters of a call or a result that are shown.
const SHOWN: usize = 160;

pub(in crate::commands) fn show(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let limit = limit(command, parsed)?;
    let (row, entries) = read(app, parsed, (!parsed.has("all")).then_some(limit))?;
    if parsed.has("json") {
        let mut value = session_json(&row);
        value["entries"] = json!(entries);
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    for entry in &entries {
        let head = format!("{}  {}  {}", entry.seq, who(app, &entry.body), iso_timestamp(entry.created_at));
        print_line(&app.output.bold(&head))?;
        for line in said(app, entry) {
            print_line(&line)?;
        }
        print_line("")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Who or what a line is from.
pub(super) fn who(app: &App, body: &EntryBody) -> &'static str {
    match body {
        EntryBody::Message(Message::User { .. }) => "user",
        EntryBody::Message(Message::Assistant { .. }) => "assistant",
        EntryBody::Message(Message::ToolResult { .. }) => "tool",
        EntryBody::Compaction(_) => app.say(texts::sessions::SUMMARY),
        EntryBody::Unknown(_) => app.say(texts::sessions::UNKNOWN),
    }
}

fn said(app: &App, entry: &Entry) -> Vec<String> {
    match &entry.body {
        EntryBody::Message(message @ Message::ToolResult { tool_name, is_error, .. }) => {
            let sign = if *is_error { "✗" } else { "✓" };
            vec![app.output.dim(&format!("{sign} {}  {}", printable(tool_name), short(&message.text())))]
        }
        EntryBody::Message(message) => {
            let mut lines = Vec::new();
            let text = message.text();
            if !text.is_empty() {
                lines.push(printable(&text));
            }
            lines.extend(message.content().iter().filter_map(|block| match block {
                Block::ToolCall { name, arguments, .. } => {
                    Some(app.output.dim(&format!("● {}  {}", printable(name), short(&arguments.to_string()))))
                }
                Block::Image { mime_type, .. } => Some(
                    app.output.dim(&app.fill(texts::sessions::IMAGE, &[("kind", &printable(mime_type))])),
                ),
                Block::Text { .. } | Block::Thinking { .. } => None,
            }));
            lines
        }
        EntryBody::Compaction(compaction) => vec![printable(&compaction.summary)],
        EntryBody::Unknown(_) => Vec::new(),
    }
}

/// The beginning of a text, on one line.
pub(super) fn short(text: &str) -> String {
    let line = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(SHOWN).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}
