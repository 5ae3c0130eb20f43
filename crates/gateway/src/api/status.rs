//! What the gateway is and does.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{Count, Counts, Me, Status};

use crate::answer::{Answered, Refusal, json, json_with};
use crate::gate::{Gate, VERSION};

pub(crate) async fn me(State(gate): State<Gate>) -> Answered {
    json(&who_is_there(&gate)?)
}

pub(crate) fn who_is_there(gate: &Gate) -> Result<Me, Refusal> {
    let scope = gate.engine().settings().scope(None)?;
    let name = gate.principal().actor().to_owned();
    Ok(Me { name, version: VERSION.to_owned(), agent: scope.agent.to_string() })
}

pub(crate) async fn status(State(gate): State<Gate>) -> Answered {
    json(&standing(&gate).await?)
}

pub(crate) async fn standing(gate: &Gate) -> Result<Status, Refusal> {
    let engine = gate.engine();
    let stored = engine.library().status(engine.tenant()).await?;
    let count =
        |list: Vec<(String, u64)>| list.into_iter().map(|(state, count)| Count { state, count }).collect();
    let health = engine.health();
    Ok(Status {
        version: VERSION.to_owned(),
        pid: std::process::id(),
        uptime_ms: gate.shared.now() - gate.shared.started_at,
        address: gate.shared.origin(),
        ready: health.ready,
        problems: health.problems,
        channels: channel_list(gate),
        services: service_list(gate),
        counts: Counts { sessions: stored.sessions, runs: count(stored.runs), outbox: count(stored.outbox) },
    })
}

pub(crate) async fn channels(State(gate): State<Gate>) -> Answered {
    json(&channel_list(&gate))
}

pub(crate) fn channel_list(gate: &Gate) -> Value {
    serde_json::to_value(gate.engine().channels()).unwrap_or_default()
}

pub(crate) async fn services(State(gate): State<Gate>) -> Answered {
    json(&service_list(&gate))
}

pub(crate) fn service_list(gate: &Gate) -> Value {
    serde_json::to_value(gate.engine().services()).unwrap_or_default()
}

pub(crate) async fn restart_service(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    match gate.engine().restart_service(&name) {
        Some(status) => json_with(StatusCode::ACCEPTED, &status),
        None => Err(Refusal::new(ErrorCode::NotFound, format!("there is no service {name} here"))),
    }
}

/// Asks the process to end. It answers first.
pub(crate) async fn stop(State(gate): State<Gate>) -> Answered {
    gate.shared.options.stop.request();
    json_with(StatusCode::ACCEPTED, &json!({"stopping": true}))
}
