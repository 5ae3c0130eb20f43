//! `sessions`: the conversations there are.

mod branch;
mod change;
mod delete;
mod export;
mod find;
mod search;
mod show;

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{Entry, ErrorCode, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{SessionFilter, SessionRow};

pub(super) use branch::{branches, edit, fork, switch};
pub(super) use change::{rename, reset};
pub(super) use delete::delete;
pub(super) use export::export;
pub(crate) use export::format_of;
pub(super) use find::{Whose, find_of};
pub(super) use search::search;
pub(super) use show::show;

use self::find::named_in;
use super::block_on;
use super::tools::fitted;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Entries read at once.
const PAGE: u32 = 500;

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let limit = limit(command, parsed)?;
    let settings = Settings::new(&loaded);
    let rows = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        let whose = Whose::of(&settings, store.as_ref(), parsed).await?;
        let Some(store) = store else { return Ok(Vec::new()) };
        let filter = SessionFilter { agent: whose.agent(), all: parsed.has("all"), limit };
        Ok(store.sessions(&whose.scope.tenant, filter).await?)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "sessions": rows.iter().map(session_json).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        print_line(&app.fill(texts::NO_SESSIONS, &[("program", &app.program)]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![titles(app, texts::SESSION_TITLES)];
    lines.extend(rows.iter().map(|row| {
        vec![
            printable(&label(row)),
            name(row),
            row.head_seq.to_string(),
            iso_timestamp(row.updated_at),
            row.route.clone().unwrap_or_default(),
            printable(row.title.as_deref().unwrap_or_default()),
        ]
    }));
    print(&fitted(app, &lines))?;
    Ok(ExitCode::SUCCESS)
}

/// The conversation that the first argument names, and its entries: the newest `limit`, or all.
fn read(app: &App, parsed: &Parsed, limit: Option<u32>) -> Result<(SessionRow, Vec<Entry>), Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    block_on(async {
        let (store, row) = named_in(app, &home, &loaded, parsed).await?;
        let mut after = limit.map_or(0, |limit| (row.head_seq - i64::from(limit)).max(0));
        let mut entries = Vec::new();
        loop {
            let page = store.entries(&row.key.scope.tenant, row.id, after, PAGE).await?;
            after = page.last().map_or(after, |entry| entry.seq);
            let last = page.len() < PAGE as usize;
            entries.extend(page);
            if last {
                return Ok((row, entries));
            }
        }
    })
}

fn not_found(app: &App, wanted: &str) -> Failure {
    let message = texts::NO_SUCH_SESSION.with(&[("name", &wanted), ("program", &app.program)]);
    Failure::new(ErrorCode::NotFound, message)
}

pub(super) fn limit(command: &'static Command, parsed: &Parsed) -> Result<u32, Failure> {
    let Some(text) = parsed.value("limit") else { return Ok(50) };
    if let Ok(limit @ 1..=10_000) = text.parse() {
        return Ok(limit);
    }
    let message = texts::INVALID_LIMIT.with(&[("value", &text)]);
    Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command))
}

pub(super) fn titles(app: &App, text: tidegate_runtime::catalogue::Text) -> Vec<String> {
    app.say(text).split(',').map(|title| app.output.dim(title)).collect()
}

fn name(row: &SessionRow) -> String {
    row.alias.clone().unwrap_or_else(|| row.id.to_string())
}

/// The agent is only shown where it is not the usual one.
fn label(row: &SessionRow) -> String {
    label_of(&row.key)
}

pub(super) fn label_of(key: &SessionKey) -> String {
    let agent = &key.scope.agent;
    if agent.as_str() == "main" { key.label() } else { format!("{agent}/{}", key.label()) }
}

fn session_json(row: &SessionRow) -> Value {
    let mut value = json!({
        "sessionKey": row.key.label(),
        "sessionId": name(row),
        "key": row.key.to_string(),
        "id": row.id,
        "agent": row.key.scope.agent,
        "current": row.current,
        "title": row.title,
        "messages": row.head_seq,
        "createdAt": iso_timestamp(row.created_at),
        "updatedAt": iso_timestamp(row.updated_at),
        "route": row.route,
        "memoryEnabled": false,
    });
    if row.provider.as_deref().is_some_and(|provider| provider != tidegate_models::OFFLINE) {
        value["provider"] = json!(row.provider);
        value["profileId"] = json!(row.profile_id);
    }
    value
}
