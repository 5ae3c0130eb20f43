//! What a person decides about a part that did not go out.

use axum::extract::{Path, State};
use tidegate_protocol::api::{ListOutbox, OutboxDecision, OutboxList, OutboxPart, SendDecision};
use tidegate_protocol::{ErrorCode, OutboxId};
use tidegate_storage::{Decided, OutboxFilter, OutboxRow, OutboxState};

use crate::answer::{Answered, Refusal, json};
use crate::gate::Gate;

/// Parts that are listed.
const LISTED: u32 = 100;

pub(crate) async fn retry(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    json(&decided(&gate, parse(&id)?, OutboxDecision::Retry).await?)
}

pub(crate) async fn give_up(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    json(&decided(&gate, parse(&id)?, OutboxDecision::Drop).await?)
}

pub(crate) async fn decided(
    gate: &Gate,
    id: OutboxId,
    decision: OutboxDecision,
) -> Result<SendDecision, Refusal> {
    let (engine, principal) = (gate.engine(), gate.principal());
    let decided = match decision {
        OutboxDecision::Retry => engine.retry_send(&principal, id).await?,
        OutboxDecision::Drop => engine.drop_send(&principal, id).await?,
    };
    match decided {
        Decided::Done { parts } => Ok(SendDecision::Done { parts }),
        Decided::Refused(state) => Ok(SendDecision::Refused { state: state.as_str().to_owned() }),
        Decided::NotFound => Err(missing(&id)),
    }
}

/// What goes to the networks, the newest first.
pub(crate) async fn listed(gate: &Gate, asked: &ListOutbox) -> Result<OutboxList, Refusal> {
    let states = match asked.state.as_deref().map(OutboxState::parse) {
        None => Vec::new(),
        Some(OutboxState::Other(state)) => {
            let message =
                format!("there is no state {state:?}; known: pending, sending, sent, dead, unknown, dropped");
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        Some(state) => vec![state],
    };
    let filter = OutboxFilter { states, channel: None, limit: asked.limit.unwrap_or(LISTED) };
    let rows = gate.engine().library().outbox(gate.engine().tenant(), filter).await?;
    Ok(OutboxList { parts: rows.into_iter().map(part).collect() })
}

fn part(row: OutboxRow) -> OutboxPart {
    OutboxPart {
        id: row.id,
        run_id: row.run,
        channel: row.channel.to_string(),
        account: row.account_id,
        lane: row.lane,
        part: row.part,
        state: row.state.as_str().to_owned(),
        attempt: row.attempt,
        body: row.body,
        reason: row.reason,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

fn parse(id: &str) -> Result<OutboxId, Refusal> {
    id.parse().map_err(|_| missing(&id))
}

fn missing(id: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("outgoing part {id} does not exist"))
}
