//! `GET /v1/models`: the agents first, then the vendors' models that may be chosen.

use axum::extract::{Path, State};
use serde_json::{Value, json};
use tidegate_engine::Settings;

use super::error::missing;
use super::route;
use crate::answer::{Answered, json};
use crate::gate::Gate;

pub(crate) async fn models(State(gate): State<Gate>) -> Answered {
    let ids = ids(gate.engine().settings());
    let data: Vec<_> = ids.iter().map(|id| entry(&gate, id)).collect();
    json(&json!({"object": "list", "data": data}))
}

pub(crate) async fn model(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    let settings = gate.engine().settings();
    let known = ids(settings);
    let agent = route::agent_in(&id).map(route::model_of);
    let found = known.iter().find(|known| **known == id || Some(*known) == agent.as_ref());
    match found {
        Some(_) => json(&entry(&gate, &id)),
        None => Err(missing("model", format!("there is no model {id:?}; GET /v1/models lists all"))),
    }
}

/// What can be asked for. The built-in model is not: it answers where nothing else is configured.
fn ids(settings: &Settings) -> Vec<String> {
    let agents = settings.agents();
    let mut ids: Vec<String> = agents.iter().map(|agent| route::model_of(agent)).collect();
    if let Ok(scope) = settings.scope(None) {
        let vendors = settings.choosable(&scope.agent);
        ids.extend(vendors.into_iter().filter(|name| name.contains('/')));
    }
    ids
}

fn entry(gate: &Gate, id: &str) -> Value {
    let created = gate.shared.started_at / 1000;
    let owner = route::vendors_model(Some(id)).and_then(|id| id.split('/').next()).unwrap_or("tidegate");
    json!({"id": id, "object": "model", "created": created, "owned_by": owner})
}
