//! The dialect of OpenAI's HTTP interface (`/v1`), for programs and official SDKs. Its shapes never leave this folder.

mod completions;
mod prompt;
mod route;
mod wire;

use axum::extract::State;
use serde_json::json;
use tidegate_protocol::{Place, SessionKey};

pub(crate) use completions::completions;
pub(crate) use wire::error_body;

use crate::answer::{Answered, json};
use crate::gate::Gate;

pub(crate) fn is_its_path(path: &str) -> bool {
    path.starts_with("/v1/")
}

/// Whether a conversation was begun for one request only.
pub(crate) fn is_one_off(key: &SessionKey) -> bool {
    matches!(&key.place, Place::Named { name } if name.starts_with(route::ONE_OFF))
}

/// `GET /v1/models`: agents are what can be asked for.
pub(crate) async fn models(State(gate): State<Gate>) -> Answered {
    let created = gate.shared.started_at / 1000;
    let settings = gate.engine().settings();
    let model = |agent: &&str| json!({"id": route::model_of(agent), "object": "model", "created": created, "owned_by": "tidegate"});
    let data: Vec<_> = settings.agents().iter().map(model).collect();
    json(&json!({"object": "list", "data": data}))
}
