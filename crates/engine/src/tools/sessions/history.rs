//! `sessions_history`: what was said in a conversation.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_protocol::{Block, Entry, Message};
use tidegate_runtime::redact;
use tidegate_storage::SessionRow;
use tidegate_tools::{Output, ToolFailure, fence};

use super::beginning;
use super::caller::{Caller, failure, unknown};
use super::look::{self, Look};
use crate::start::Core;

/// Lines of the log that are read for one message: tools write several.
const LINES_A_MESSAGE: u32 = 8;
/// Characters of one message.
const LONGEST: usize = 4_000;
/// Characters of all of them.
const ALL: usize = 32_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// From sessions_list.
    session_key: String,
    /// Messages, the newest; 20 without it.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// Also tool calls and results.
    #[serde(default)]
    include_tools: bool,
}

pub(super) struct SessionsHistory;

#[async_trait]
impl Look for SessionsHistory {
    type Args = Args;
    const NAME: &'static str = "sessions_history";
    const DESCRIPTION: &'static str = "Shows what a conversation said.";

    async fn look(caller: &Caller, args: Args) -> Result<Output, ToolFailure> {
        let key = caller.resolve(&args.session_key).await?;
        let core = &caller.core;
        let row = core.store.session(&key).await.map_err(failure)?;
        let row = row.ok_or_else(|| unknown(&args.session_key))?;
        let limit = look::bounded(args.limit);
        let entries = newest(core, &row, limit.saturating_mul(LINES_A_MESSAGE)).await?;
        let said: Vec<(String, bool)> =
            entries.iter().filter_map(|entry| line(entry, args.include_tools, LONGEST)).collect();
        let (lines, left_out) = bounded(said, usize::try_from(limit).unwrap_or(usize::MAX));
        let text = fence(&format!("session {}", key.label()), &lines.join("\n\n"));
        let data = json!({ "sessionKey": key.to_string(), "count": lines.len(), "leftOut": left_out });
        Ok(Output { truncated: left_out, ..Output::text(text).with_data(data) })
    }
}

/// The newest lines of a log.
async fn newest(core: &Core, row: &SessionRow, count: u32) -> Result<Vec<Entry>, ToolFailure> {
    let after = row.head_seq.saturating_sub(i64::from(count)).max(0);
    core.store.entries(&core.tenant, row.id, after, count).await.map_err(failure)
}

/// What was said last in a conversation, each message cut short.
pub(super) async fn last_words(
    core: &Core,
    row: &SessionRow,
    count: u32,
    longest: usize,
) -> Result<Vec<String>, ToolFailure> {
    let entries = newest(core, row, count.saturating_mul(LINES_A_MESSAGE)).await?;
    let words: Vec<String> =
        entries.iter().filter_map(|entry| line(entry, false, longest)).map(|(text, _)| text).collect();
    let from = words.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    Ok(words.into_iter().skip(from).collect())
}

/// One message as it is shown, and whether all of it is.
fn line(entry: &Entry, tools: bool, longest: usize) -> Option<(String, bool)> {
    let message = entry.body.message()?;
    let (who, text) = match message {
        Message::User { .. } => ("user".to_owned(), message.text()),
        Message::Assistant { .. } => ("assistant".to_owned(), with_calls(message, tools)),
        Message::ToolResult { tool_name, .. } if tools => (format!("result of {tool_name}"), message.text()),
        Message::ToolResult { .. } => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    let (text, whole) = beginning(&redact(&text), longest);
    Some((format!("{who}: {text}"), whole))
}

fn with_calls(message: &Message, tools: bool) -> String {
    let mut text = message.text();
    if tools {
        for block in message.content() {
            if let Block::ToolCall { name, arguments, .. } = block {
                let _ = write!(text, "\n[calls {name} {arguments}]");
            }
        }
    }
    text
}

/// The newest that fit, oldest first, and whether something was left out of them.
fn bounded(said: Vec<(String, bool)>, limit: usize) -> (Vec<String>, bool) {
    let mut left = ALL;
    let mut cut = false;
    let mut kept = Vec::new();
    for (text, whole) in said.into_iter().rev().take(limit) {
        let size = text.chars().count();
        if size > left {
            cut = true;
            break;
        }
        left -= size;
        cut |= !whole;
        kept.push(text);
    }
    kept.reverse();
    (kept, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_messages_that_fit_are_kept_in_their_order() {
        let said = |texts: &[&str]| texts.iter().map(|text| ((*text).to_owned(), true)).collect::<Vec<_>>();
        assert_eq!(bounded(said(&["a", "b", "c"]), 2), (vec!["b".to_owned(), "c".to_owned()], false));
        let long = "x".repeat(ALL - 1);
        assert_eq!(bounded(said(&["a", &long, "b"]), 9), (vec![long, "b".to_owned()], true));
        assert_eq!(bounded(vec![("a".to_owned(), false)], 9), (vec!["a".to_owned()], true));
    }
}
