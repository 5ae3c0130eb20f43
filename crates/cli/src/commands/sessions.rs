//! `sessions`: the conversations there are.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{Entry, ErrorCode, Message, Role, Scope, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{SessionFilter, SessionRow, Store};

use super::block_on;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::reach::{Reach, reach};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Entries read at once.
const PAGE: u32 = 500;

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let limit = limit(command, parsed)?;
    let agent = match parsed.value("agent") {
        Some(name) => Some(Settings::new(&loaded).reading_scope(Some(name))?.agent),
        None => None,
    };
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let rows = block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Ok(Vec::new()) };
        Ok(store.sessions(&tenant, SessionFilter { agent, all: parsed.has("all"), limit }).await?)
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
        ]
    }));
    print(&table(&lines))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let limit = limit(command, parsed)?;
    let (row, entries) = read(app, parsed, Some(limit))?;
    if parsed.has("json") {
        let mut value = session_json(&row);
        value["entries"] = json!(entries);
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    for message in entries.iter().filter_map(|entry| entry.body.message()) {
        let head = format!("{}  {}", role(message), iso_timestamp(message.timestamp()));
        print_line(&app.output.bold(&head))?;
        print_line(&printable(&message.text()))?;
        print_line("")?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let format = parsed.value("format").unwrap_or("jsonl");
    if !["jsonl", "markdown"].contains(&format) {
        let message = texts::INVALID_FORMAT.with(&[("value", &format)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command));
    }
    let (row, entries) = read(app, parsed, None)?;
    let text = if format == "jsonl" { jsonl(&row, &entries) } else { markdown(&row, &entries) };
    let Some(file) = parsed.value("output") else {
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let write = || {
        let mut out =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
        out.write_all(text.as_bytes())
    };
    write().map_err(|error| {
        Failure::new(ErrorCode::InvalidValue, crate::failure::Message::plain(format!("{file}: {error}")))
    })?;
    if parsed.has("json") {
        print_json(&json!({ "file": file, "format": format, "entries": entries.len() }))?;
    } else {
        complain(&app.fill(texts::EXPORTED, &[("file", &file)]));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn delete(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let scope = Settings::new(&loaded).reading_scope(parsed.value("agent"))?;
    let wanted = &parsed.arguments[0];
    let (row, logs) = block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else {
            return Err(not_found(app, wanted));
        };
        let row = find(app, &store, &scope, wanted).await?;
        let all = SessionFilter { agent: Some(row.key.scope.agent.clone()), all: true, limit: 10_000 };
        let mut logs = store.sessions(&scope.tenant, all).await?;
        logs.retain(|log| log.key == row.key);
        Ok((row, logs))
    })?;
    if !row.current {
        // Deleting takes the whole session: an old id must not take the conversation of today with it.
        let message = texts::DELETE_OLD.with(&[("id", wanted), ("name", &row.key.label())]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    }
    if !parsed.has("yes") && !confirmed(app, &row, &logs)? {
        print_line(app.say(texts::NOT_DELETED))?;
        return Ok(ExitCode::from(1));
    }
    let names = block_on(async {
        let delete = async |reach: Reach| reach.delete_session(&row.key).await;
        reach(app, &home, &loaded, "sessions delete", delete).await
    })?;
    if parsed.has("json") {
        print_json(&json!({ "deleted": row.key.label(), "sessionIds": names }))?;
    } else {
        print_line(&app.fill(texts::DELETED, &[("name", &printable(&row.key.label()))]))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a person; a program has to say `--yes`.
fn confirmed(app: &App, row: &SessionRow, logs: &[SessionRow]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !app.output.terminal {
        return Err(Failure::new(ErrorCode::MissingValue, texts::DELETE_NEEDS_YES.with(&[])));
    }
    let name = printable(&row.key.label());
    let messages: i64 = logs.iter().map(|log| log.head_seq).sum();
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("name", &name), ("messages", &messages), ("logs", &logs.len())];
    print(&app.fill(texts::DELETE_QUESTION, &values))?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// The conversation that the first argument names, and its entries: the newest `limit`, or all.
fn read(app: &App, parsed: &Parsed, limit: Option<u32>) -> Result<(SessionRow, Vec<Entry>), Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let scope = Settings::new(&loaded).reading_scope(parsed.value("agent"))?;
    let wanted = &parsed.arguments[0];
    block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else {
            return Err(not_found(app, wanted));
        };
        let row = find(app, &store, &scope, wanted).await?;
        let mut after = limit.map_or(0, |limit| (row.head_seq - i64::from(limit)).max(0));
        let mut entries = Vec::new();
        loop {
            let page = store.entries(&scope.tenant, row.id, after, PAGE).await?;
            after = page.last().map_or(after, |entry| entry.seq);
            let last = page.len() < PAGE as usize;
            entries.extend(page);
            if last {
                return Ok((row, entries));
            }
        }
    })
}

/// Finds a conversation by what `sessions list` shows: its name, its id or alias, or its full key.
pub(super) async fn find(
    app: &App,
    store: &Arc<dyn Store>,
    scope: &Scope,
    wanted: &str,
) -> Result<SessionRow, Failure> {
    let full = wanted.parse::<SessionKey>().ok().filter(|key| key.scope.tenant == scope.tenant);
    // `helper/work` is how the list shows the session `work` of another agent.
    let of_agent = wanted.split_once('/').and_then(|(agent, name)| {
        let scope = Scope { agent: agent.parse().ok()?, ..scope.clone() };
        Some(SessionKey::named(scope, name))
    });
    let named = SessionKey::named(scope.clone(), wanted);
    let key = match of_agent {
        Some(key) if full.is_none() && store.session(&named).await?.is_none() => key,
        _ => full.unwrap_or(named),
    };
    if let Some(row) = store.session(&key).await? {
        return Ok(row);
    }
    if let Some(row) = store.session_by_name(&scope.tenant, wanted).await? {
        return Ok(row);
    }
    // A conversation of a channel goes by the name that the list shows.
    let listed =
        store.sessions(&scope.tenant, SessionFilter { agent: None, all: false, limit: 10_000 }).await?;
    let shown = listed.into_iter().find(|row| label_of(&row.key) == wanted);
    shown.ok_or_else(|| not_found(app, wanted))
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

fn role(message: &Message) -> &'static str {
    match message.role() {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::ToolResult => "tool",
    }
}

fn session_json(row: &SessionRow) -> Value {
    let mut value = json!({
        "sessionKey": row.key.label(),
        "sessionId": name(row),
        "key": row.key.to_string(),
        "id": row.id,
        "agent": row.key.scope.agent,
        "current": row.current,
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

fn jsonl(row: &SessionRow, entries: &[Entry]) -> String {
    let mut text = format!("{}\n", session_json(row));
    for entry in entries {
        let _ = writeln!(text, "{}", json!(entry));
    }
    text
}

fn markdown(row: &SessionRow, entries: &[Entry]) -> String {
    let mut text = format!("# {}\n\n{}, {}\n", row.key.label(), name(row), iso_timestamp(row.created_at));
    for message in entries.iter().filter_map(|entry| entry.body.message()) {
        let _ = write!(
            text,
            "\n## {} ({})\n\n{}\n",
            role(message),
            iso_timestamp(message.timestamp()),
            message.text()
        );
    }
    text
}
