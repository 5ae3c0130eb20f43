//! `sessions_list`: which conversations there are.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_protocol::Place as Where;
use tidegate_runtime::iso_timestamp;
use tidegate_storage::SessionRow;
use tidegate_tools::{Output, ToolFailure, fence};

use super::caller::Caller;
use super::history::last_words;
use super::look::{self, Look};
use crate::settings::Wish;

/// Conversations that are looked through; those that are not to be seen are left out of them.
const LOOKED_AT: u32 = 500;
/// Messages of each conversation at most.
const MESSAGES: u32 = 20;
/// Characters of each of them.
const WORDS: usize = 300;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// How many; 20 without it.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// Only those used in the last so many minutes.
    active_minutes: Option<u32>,
    /// Only main, dm, group, named or sub.
    kinds: Option<Vec<String>>,
    /// The last messages of each.
    #[schemars(range(max = 20))]
    message_limit: Option<u32>,
}

pub(super) struct SessionsList;

#[async_trait]
impl Look for SessionsList {
    type Args = Args;
    const NAME: &'static str = "sessions_list";
    const DESCRIPTION: &'static str = "Lists conversations, the latest first.";

    async fn look(caller: &Caller, args: Args) -> Result<Output, ToolFailure> {
        let mut sessions = Vec::new();
        for row in visible(caller, &args).await? {
            let mut shown = shown(caller, &row);
            if let Some(count) = args.message_limit.filter(|count| *count > 0) {
                let words = last_words(&caller.core, &row, count.min(MESSAGES), WORDS).await?;
                shown["messages"] = json!(words);
            }
            sessions.push(shown);
        }
        let data = json!({ "count": sessions.len(), "sessions": sessions });
        // Titles and messages are other people's words.
        Ok(Output::text(fence("the list of sessions", &data.to_string())).with_data(data))
    }
}

async fn visible(caller: &Caller, args: &Args) -> Result<Vec<SessionRow>, ToolFailure> {
    let oldest = args.active_minutes.map(|minutes| caller.core.clock.now_ms() - i64::from(minutes) * 60_000);
    let limit = usize::try_from(look::bounded(args.limit)).unwrap_or(usize::MAX);
    let tree = caller.tree().await?;
    let is_seen = |row: &SessionRow| match &tree {
        Some(tree) => tree.contains(&row.key),
        None => {
            row.key.scope.workspace == caller.scope.workspace
                && caller.core.settings.may_reach(&caller.scope.agent, &row.key.scope.agent)
        }
    };
    let may_leave = |row: &SessionRow| {
        caller.key.as_ref() == Some(&row.key)
            || caller.is_sensitive_itself()
            || !caller.is_sensitive(&row.key)
    };
    let is_meant = |row: &SessionRow| {
        args.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|named| named == kind(&row.key.place)))
            && oldest.is_none_or(|oldest| row.updated_at >= oldest)
    };
    let rows = caller.rows(None, LOOKED_AT).await?;
    Ok(rows.into_iter().filter(|row| is_seen(row) && is_meant(row) && may_leave(row)).take(limit).collect())
}

fn shown(caller: &Caller, row: &SessionRow) -> Value {
    // As it would be asked now: whole, whatever name it was chosen by.
    let wish = Wish { model: row.settings.model.as_deref(), ..Wish::default() };
    let settings = &caller.core.settings;
    let spec = settings.run_spec(&row.key.scope, &wish);
    let spec = spec.or_else(|_| settings.run_spec(&row.key.scope, &Wish::default()));
    let model = spec.ok().and_then(|spec| spec.models.first().map(ToString::to_string));
    json!({
        "sessionKey": row.key.to_string(),
        "kind": kind(&row.key.place),
        "title": row.title,
        "current": caller.key.as_ref() == Some(&row.key),
        "updatedAt": iso_timestamp(row.updated_at),
        "model": model,
        "contextTokens": row.context_tokens,
    })
}

pub(super) fn kind(place: &Where) -> &'static str {
    match place {
        Where::Main => "main",
        Where::Dm { .. } => "dm",
        Where::Group { .. } => "group",
        Where::Named { .. } => "named",
        Where::Sub { .. } => "sub",
    }
}
