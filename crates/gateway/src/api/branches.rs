//! The logs of a conversation: which there are, a new one forked from any of them, and their titles.

use axum::extract::{Path, Request, State};
use tidegate_protocol::api::{BranchList, BranchView, ForkSession, NameSession, SessionChange};
use tidegate_protocol::{ErrorCode, SessionKey};
use tidegate_storage::SessionRow;

use crate::answer::{Answered, Refusal, json, no_content};
use crate::body;
use crate::dialect::native::news;
use crate::gate::Gate;
use crate::names::key_of;

pub(crate) async fn list(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    let rows = engine.branches(&key).await?;
    json(&BranchList { branches: rows.into_iter().map(view).collect() })
}

fn view(row: SessionRow) -> BranchView {
    BranchView {
        id: row.id,
        name: row.alias.unwrap_or_else(|| row.id.to_string()),
        current: row.current,
        title: row.title,
        lines: row.head_seq,
        parent: row.parent.map(|(parent, _)| parent),
        fork_seq: row.parent.map(|(_, seq)| seq),
        updated_at: row.updated_at,
    }
}

pub(crate) async fn fork(State(gate): State<Gate>, Path(name): Path<String>, request: Request) -> Answered {
    let asked: ForkSession = body::read(request).await?;
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    let forked = engine.fork_as_asked(&gate.principal(), &key, &asked).await?;
    news::session_changed(&gate, &key, SessionChange::Forked);
    json(&forked)
}

pub(crate) async fn name(State(gate): State<Gate>, Path(name): Path<String>, request: Request) -> Answered {
    let NameSession { title } = body::read(request).await?;
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    named(&gate, &key, &name, title.as_deref()).await?;
    Ok(no_content())
}

/// Gives a conversation a title, or takes it away.
pub(crate) async fn named(
    gate: &Gate,
    key: &SessionKey,
    name: &str,
    title: Option<&str>,
) -> Result<(), Refusal> {
    if !gate.engine().set_title(&gate.principal(), key, title).await? {
        return Err(Refusal::new(ErrorCode::NotFound, format!("session {name} does not exist")));
    }
    news::session_changed(gate, key, SessionChange::Renamed);
    Ok(())
}
