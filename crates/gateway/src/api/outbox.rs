//! What a person decides about a part that did not go out.

use axum::extract::{Path, State};
use tidegate_protocol::api::SendDecision;
use tidegate_protocol::{ErrorCode, OutboxId};
use tidegate_storage::Decided;

use crate::answer::{Answered, Refusal, json};
use crate::gate::Gate;

pub(crate) async fn retry(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    answer(&id, gate.engine().retry_send(&gate.principal(), parse(&id)?).await?)
}

pub(crate) async fn give_up(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    answer(&id, gate.engine().drop_send(&gate.principal(), parse(&id)?).await?)
}

fn parse(id: &str) -> Result<OutboxId, Refusal> {
    id.parse().map_err(|_| missing(id))
}

fn missing(id: &str) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("outgoing part {id} does not exist"))
}

fn answer(id: &str, decided: Decided) -> Answered {
    match decided {
        Decided::Done { parts } => json(&SendDecision::Done { parts }),
        Decided::Refused(state) => json(&SendDecision::Refused { state: state.as_str().to_owned() }),
        Decided::NotFound => Err(missing(id)),
    }
}
