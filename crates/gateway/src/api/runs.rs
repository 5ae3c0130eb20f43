//! Runs: reading about them, and ending one or all that are under way.

use axum::extract::{Path, Request, State};
use axum::http::Uri;
use tidegate_engine::{StopFilter, said};
use tidegate_protocol::api::{ListRuns, RunList, RunView, StopRuns, StoppedRun, StoppedRuns};
use tidegate_protocol::{ErrorCode, RunId, RunState};
use tidegate_storage::{AbortOutcome, RunFilter, RunLookup, RunRow};

use crate::answer::{Answered, Refusal, json, no_content};
use crate::body;
use crate::gate::Gate;
use crate::names::key_of;
use crate::query;

/// Runs that are listed, and how many may be.
const LISTED: u32 = 50;
const MOST_LISTED: u32 = 500;

pub(crate) async fn abort(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    aborted(&gate, parse(&id)?).await?;
    Ok(no_content())
}

pub(crate) async fn aborted(gate: &Gate, run: RunId) -> Result<(), Refusal> {
    match gate.engine().abort(&gate.principal(), run).await? {
        // Whoever asks for the end of a run that ended has what they want.
        AbortOutcome::Aborted | AbortOutcome::AlreadyEnded(_) | AbortOutcome::Begun => Ok(()),
        AbortOutcome::NotFound => Err(missing(&run)),
    }
}

fn parse(id: &str) -> Result<RunId, Refusal> {
    id.parse().map_err(|_| missing(&id))
}

fn missing(id: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("run {id} does not exist"))
}

pub(crate) async fn stop(State(gate): State<Gate>, request: Request) -> Answered {
    let asked: StopRuns = body::read(request).await?;
    let engine = gate.engine();
    let settings = engine.settings();
    let agent = asked.agent.as_deref().map(|agent| settings.reading_scope(Some(agent))).transpose()?;
    let session = asked.session.as_deref();
    let session = session.map(|name| key_of(settings, engine.tenant(), asked.agent.as_deref(), name));
    let filter = StopFilter {
        session: session.transpose()?,
        agent: agent.map(|scope| scope.agent),
        waiting: asked.all,
    };
    let stopped = engine.stop_all(&gate.principal(), &filter).await?;
    json(&StoppedRuns { runs: stopped.iter().map(line).collect() })
}

/// The newest runs; `session` and `state` narrow them.
pub(crate) async fn list(State(gate): State<Gate>, uri: Uri) -> Answered {
    let asked = query::pairs(uri.query());
    let limit = Some(query::limit(&asked, LISTED, MOST_LISTED)?);
    let state = asked.get("state").map(|state| RunState::parse(state));
    json(
        &listed(&gate, &ListRuns { session: asked.get("session").cloned(), agent: None, state, limit })
            .await?,
    )
}

pub(crate) async fn listed(gate: &Gate, asked: &ListRuns) -> Result<RunList, Refusal> {
    let engine = gate.engine();
    let (session, agent, state) = (asked.session.as_deref(), asked.agent.as_deref(), asked.state.clone());
    let session = session.map(|name| key_of(engine.settings(), engine.tenant(), agent, name));
    if let Some(RunState::Unknown(state)) = &state {
        let known = RunState::KNOWN.join(", ");
        return Err(Refusal::new(
            ErrorCode::BadRequest,
            format!("there is no state {state:?}; known: {known}"),
        ));
    }
    let limit = asked.limit.unwrap_or(LISTED);
    let filter = RunFilter { state, session: session.transpose()?, limit, ..RunFilter::default() };
    let rows = engine.library().runs(engine.tenant(), filter).await?;
    Ok(RunList { runs: rows.iter().map(|row| view(row, None)).collect() })
}

pub(crate) async fn show(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    json(&shown(&gate, parse(&id)?).await?)
}

pub(crate) async fn shown(gate: &Gate, run: RunId) -> Result<RunView, Refusal> {
    let (engine, library) = (gate.engine(), gate.engine().library());
    let row = library.run(engine.tenant(), &RunLookup::Id(run)).await?.ok_or_else(|| missing(&run))?;
    let answer = match row.state {
        RunState::Completed => said(library, engine.tenant(), &row).await?,
        _ => None,
    };
    Ok(view(&row, answer))
}

fn view(row: &RunRow, answer: Option<String>) -> RunView {
    RunView {
        run_id: row.id,
        request_id: row.client_key.clone(),
        session: row.key.to_string(),
        session_id: row.session,
        state: row.state.clone(),
        attempt: row.attempt,
        actor: row.actor.clone(),
        text: row.input.text(),
        answer,
        models: row.spec.models.clone(),
        usage: row.usage,
        error: row.error.clone(),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
    }
}

fn line(row: &RunRow) -> StoppedRun {
    StoppedRun {
        run_id: row.id,
        request_id: row.client_key.clone(),
        session: row.key.to_string(),
        state: row.state.clone(),
        text: row.input.text(),
    }
}
