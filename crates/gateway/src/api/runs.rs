//! Ending runs: one, or all that are under way.

use axum::extract::{Path, Request, State};
use tidegate_engine::StopFilter;
use tidegate_protocol::api::{StopRuns, StoppedRun, StoppedRuns};
use tidegate_protocol::{ErrorCode, RunId};
use tidegate_storage::{AbortOutcome, RunRow};

use crate::answer::{Answered, Refusal, json, no_content};
use crate::body;
use crate::gate::Gate;
use crate::names::key_of;

pub(crate) async fn abort(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    let missing = || Refusal::new(ErrorCode::NotFound, format!("run {id} does not exist"));
    let run: RunId = id.parse().map_err(|_| missing())?;
    match gate.engine().abort(&gate.principal(), run).await? {
        // Whoever asks for the end of a run that ended has what they want.
        AbortOutcome::Aborted | AbortOutcome::AlreadyEnded(_) | AbortOutcome::Begun => Ok(no_content()),
        AbortOutcome::NotFound => Err(missing()),
    }
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

fn line(row: &RunRow) -> StoppedRun {
    StoppedRun {
        run_id: row.id,
        request_id: row.client_key.clone(),
        session: row.key.to_string(),
        state: row.state.clone(),
        text: row.input.text(),
    }
}
