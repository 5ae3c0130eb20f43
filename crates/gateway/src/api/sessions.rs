//! The list of conversations, and taking one away.

use std::collections::HashSet;

use axum::extract::{Path, State};
use tidegate_engine::session_name;
use tidegate_protocol::api::{Deleted, ListSessions, SessionChange, SessionItem, SessionList};
use tidegate_protocol::{Message, Place, RunState, SessionKey};
use tidegate_storage::{RunFilter, RunRow, SessionFilter, SessionRow};

use crate::answer::{Answered, Refusal, json};
use crate::dialect::native::news;
use crate::gate::Gate;
use crate::names::key_of;
use crate::openai::is_one_off;

/// Conversations shown.
const SHOWN: u32 = 200;
/// Conversations looked at for those that are searched for.
const LOOKED_AT: u32 = 2000;
/// Runs looked at to know what is under way.
const ACTIVE: u32 = 500;
/// Runs without an answer looked at, each way of ending.
const UNANSWERED: u32 = 50;
/// Characters of a title.
const TITLE: usize = 60;

pub(crate) async fn list(State(gate): State<Gate>) -> Answered {
    json(&listed(&gate, &ListSessions { limit: None, before: None, query: None }).await?)
}

/// The conversations that are asked for, the last used first.
pub(crate) async fn listed(gate: &Gate, asked: &ListSessions) -> Result<SessionList, Refusal> {
    let engine = gate.engine();
    let default = engine.settings().scope(None)?;
    let shown = asked.limit.unwrap_or(SHOWN);
    let narrowed = asked.before.is_some() || asked.query.is_some();
    let filter =
        SessionFilter { limit: if narrowed { LOOKED_AT } else { shown + 1 }, ..SessionFilter::default() };
    let rows = engine.library().sessions(engine.tenant(), filter).await?;
    let without_answer = without_answer(gate).await?;
    let active: HashSet<&SessionKey> =
        without_answer.iter().filter(|run| !run.state.is_terminal()).map(|run| &run.key).collect();
    let mut listed = HashSet::new();
    let mut sessions = Vec::with_capacity(rows.len());
    for row in rows.iter().filter(|row| !is_one_off(&row.key)) {
        listed.insert(&row.key);
        sessions.push(SessionItem {
            name: session_name(&default, &row.key),
            title: title(gate, row).await?,
            updated_at: row.updated_at,
            running: active.contains(&row.key),
        });
    }
    // A conversation has a log once something in it was answered; before that it is known by what was asked.
    for run in without_answer.iter().filter(|run| !is_one_off(&run.key)) {
        if listed.insert(&run.key) {
            sessions.push(SessionItem {
                name: session_name(&default, &run.key),
                title: if is_named(&run.key) { shortened(&run.input.text()) } else { run.key.label() },
                updated_at: run.created_at,
                running: active.contains(&run.key),
            });
        }
    }
    sessions.retain(|item| is_asked_for(item, asked));
    sessions.sort_by_key(|item| std::cmp::Reverse(item.updated_at));
    let more = sessions.len() > shown as usize;
    sessions.truncate(shown as usize);
    Ok(SessionList { sessions, more })
}

fn is_asked_for(item: &SessionItem, asked: &ListSessions) -> bool {
    let has = |text: &str, wanted: &str| text.to_lowercase().contains(&wanted.to_lowercase());
    let earlier = asked.before.is_none_or(|before| item.updated_at < before);
    let found =
        asked.query.as_deref().is_none_or(|wanted| has(&item.title, wanted) || has(&item.name, wanted));
    earlier && found
}

/// Runs that wait, are under way, or ended without an answer.
async fn without_answer(gate: &Gate) -> Result<Vec<RunRow>, Refusal> {
    let engine = gate.engine();
    let mut runs = Vec::new();
    for (state, limit) in [
        (RunState::Queued, ACTIVE),
        (RunState::Running, ACTIVE),
        (RunState::Failed, UNANSWERED),
        (RunState::Aborted, UNANSWERED),
        (RunState::Interrupted, UNANSWERED),
    ] {
        let filter = RunFilter { state: Some(state), limit, ..RunFilter::default() };
        runs.extend(engine.library().runs(engine.tenant(), filter).await?);
    }
    Ok(runs)
}

fn is_named(key: &SessionKey) -> bool {
    matches!(key.place, Place::Named { .. }) && key.thread.is_none()
}

/// What somebody called it, or how it began; a place that has a name of its own keeps it.
async fn title(gate: &Gate, row: &SessionRow) -> Result<String, Refusal> {
    if !is_named(&row.key) {
        return Ok(row.key.label());
    }
    if let Some(title) = &row.title {
        return Ok(title.clone());
    }
    // Written by a release that kept no titles.
    let engine = gate.engine();
    let first = engine.library().entries(engine.tenant(), row.id, 0, 1).await?;
    let text = first.first().and_then(|entry| entry.body.message()).map(Message::text).unwrap_or_default();
    Ok(if text.trim().is_empty() { row.key.label() } else { shortened(&text) })
}

/// The beginning of a text on one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().take(TITLE).collect::<Vec<_>>().join(" ");
    let mut title: String = line.chars().take(TITLE).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}

pub(crate) async fn delete(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    let engine = gate.engine();
    json(&deleted(&gate, &key_of(engine.settings(), engine.tenant(), None, &name)?).await?)
}

pub(crate) async fn deleted(gate: &Gate, key: &SessionKey) -> Result<Deleted, Refusal> {
    let removed = gate.engine().delete_session(&gate.principal(), key).await?;
    news::session_changed(gate, key, SessionChange::Deleted);
    Ok(Deleted { removed })
}
