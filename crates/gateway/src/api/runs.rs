//! Ending a run.

use axum::extract::{Path, State};
use tidegate_protocol::{ErrorCode, RunId};
use tidegate_storage::AbortOutcome;

use crate::answer::{Answered, Refusal, no_content};
use crate::gate::Gate;

pub(crate) async fn abort(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    let missing = || Refusal::new(ErrorCode::NotFound, format!("run {id} does not exist"));
    let run: RunId = id.parse().map_err(|_| missing())?;
    match gate.engine().abort(&gate.principal(), run).await? {
        // Whoever asks for the end of a run that ended has what they want.
        AbortOutcome::Aborted | AbortOutcome::AlreadyEnded(_) | AbortOutcome::Begun => Ok(no_content()),
        AbortOutcome::NotFound => Err(missing()),
    }
}
