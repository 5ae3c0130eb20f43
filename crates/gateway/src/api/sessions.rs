//! The list of conversations, and taking one away.

use std::collections::HashSet;

use axum::extract::{Path, State};
use tidegate_protocol::api::{Deleted, SessionItem, SessionList};
use tidegate_protocol::{Message, Place, RunState, SessionKey};
use tidegate_storage::{RunFilter, SessionFilter, SessionRow};

use crate::answer::{Answered, Refusal, json};
use crate::gate::Gate;
use crate::names::{key_of, name_of};
use crate::openai::is_one_off;

/// Conversations shown.
const SHOWN: u32 = 200;
/// Runs looked at to know what is under way.
const ACTIVE: u32 = 500;
/// Characters of a title.
const TITLE: usize = 60;

pub(crate) async fn list(State(gate): State<Gate>) -> Answered {
    let engine = gate.engine();
    let default = engine.settings().scope(None)?;
    let filter = SessionFilter { limit: SHOWN, ..SessionFilter::default() };
    let rows = engine.library().sessions(engine.tenant(), filter).await?;
    let active = active(&gate).await?;
    let mut sessions = Vec::with_capacity(rows.len());
    for row in rows.into_iter().filter(|row| !is_one_off(&row.key)) {
        sessions.push(SessionItem {
            name: name_of(&default, &row.key),
            title: title(&gate, &row).await?,
            updated_at: row.updated_at,
            running: active.contains(&row.key),
        });
    }
    json(&SessionList { sessions })
}

async fn active(gate: &Gate) -> Result<HashSet<SessionKey>, Refusal> {
    let engine = gate.engine();
    let mut keys = HashSet::new();
    for state in [RunState::Queued, RunState::Running] {
        let filter = RunFilter { state: Some(state), limit: ACTIVE, ..RunFilter::default() };
        let runs = engine.library().runs(engine.tenant(), filter).await?;
        keys.extend(runs.into_iter().map(|run| run.key));
    }
    Ok(keys)
}

/// What the conversation began with; a place that has a name of its own keeps it.
async fn title(gate: &Gate, row: &SessionRow) -> Result<String, Refusal> {
    let named = matches!(row.key.place, Place::Named { .. }) && row.key.thread.is_none();
    if !named {
        return Ok(row.key.label());
    }
    let engine = gate.engine();
    let first = engine.library().entries(engine.tenant(), row.id, 0, 1).await?;
    let text = first.first().and_then(|entry| entry.body.message()).map(Message::text).unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Ok(row.key.label());
    }
    let mut title: String = line.chars().take(TITLE).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Ok(title)
}

pub(crate) async fn delete(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    let removed = engine.delete_session(&gate.principal(), &key).await?;
    json(&Deleted { removed })
}
