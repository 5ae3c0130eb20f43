//! Whether the process lives, and whether it can work. For supervisors; open to everybody, so it names no secrets.

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use tidegate_runtime::iso_timestamp;

use crate::answer::{Answered, json, json_with};
use crate::gate::Gate;

pub(crate) async fn live() -> Answered {
    json(&json!({"ok": true}))
}

/// The same in one answer for those who look for `/health`.
pub(crate) async fn health(State(gate): State<Gate>) -> Answered {
    let health = gate.engine().health();
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let time = iso_timestamp(gate.shared.now());
    json_with(
        status,
        &json!({"ok": health.ready, "service": "tidegate", "time": time, "problems": health.problems}),
    )
}

pub(crate) async fn ready(State(gate): State<Gate>) -> Answered {
    let health = gate.engine().health();
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_with(status, &json!({"ok": health.ready, "problems": health.problems}))
}
