//! Trying a model: one tiny call, and what came of it.

use axum::extract::{Request, State};
use tidegate_engine::Wish;
use tidegate_protocol::api::TestModel;

use crate::answer::{Answered, json};
use crate::body;
use crate::gate::Gate;

pub(crate) async fn test(State(gate): State<Gate>, request: Request) -> Answered {
    let asked: TestModel = body::read(request).await?;
    let engine = gate.engine();
    let scope = engine.settings().scope(asked.agent.as_deref())?;
    let wish = Wish {
        provider: asked.provider.as_deref(),
        model: asked.model.as_deref(),
        profile: asked.profile.as_deref(),
        ..Wish::default()
    };
    let spec = engine.settings().run_spec(&scope, &wish)?;
    json(&engine.probe(&scope, spec).await?)
}
