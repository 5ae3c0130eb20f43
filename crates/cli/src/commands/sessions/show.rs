//! `sessions show`: what was said, line by line, with the numbers that `fork` and `edit` take.

use std::collections::HashSet;
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
    if let Some(left_out) = entries.first().map(|entry| entry.seq - 1).filter(|count| *count > 0) {
        let values: [(&str, &dyn std::fmt::Display); 2] = [("count", &left_out), ("last", &row.head_seq)];
        print_line(&app.output.dim(&app.fill(texts::sessions::LEFT_OUT, &values)))?;
        print_line("")?;
    }
    let done = ended_calls(&entries);
    for entry in &entries {
        let head = format!("{}  {}  {}", entry.seq, who(app, &entry.body), iso_timestamp(entry.created_at));
        print_line(&app.output.bold(&head))?;
        for line in said(app, entry, &done) {
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

/// The calls that have a result.
fn ended_calls(entries: &[Entry]) -> HashSet<&str> {
    let results = entries.iter().filter_map(|entry| match &entry.body {
        EntryBody::Message(Message::ToolResult { tool_call_id, .. }) => Some(tool_call_id.as_str()),
        _ => None,
    });
    results.collect()
}

fn said(app: &App, entry: &Entry, done: &HashSet<&str>) -> Vec<String> {
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
                Block::ToolCall { id, name, arguments, .. } => {
                    let ended = done.contains(id.as_str());
                    let note = if ended { "" } else { app.say(texts::sessions::INTERRUPTED) };
                    let call = format!("● {}  {}{note}", printable(name), short(&arguments.to_string()));
                    Some(app.output.dim(&call))
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
