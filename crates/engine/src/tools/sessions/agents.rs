//! `agents_list`: which agents can be started.

use std::sync::Weak;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::AgentId;
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work};

use super::caller::Caller;
use super::told;
use crate::start::Core;

#[derive(Deserialize, JsonSchema)]
struct Args {}

pub(super) struct AgentsList {
    spec: ToolSpec,
    core: Weak<Core>,
}

impl AgentsList {
    pub(super) fn new(core: Weak<Core>) -> Self {
        Self { spec: ToolSpec::of::<Args>("agents_list", "Agents that sessions_spawn may start."), core }
    }
}

#[async_trait]
impl Tool for AgentsList {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let caller = Caller::of(&self.core, permitted, work)?;
        let settings = &caller.core.settings;
        let agents: Vec<Value> = settings
            .spawn_targets(&caller.scope.agent)
            .into_iter()
            .filter_map(|id| Some((id, id.parse::<AgentId>().ok()?)))
            .map(|(id, agent)| json!({ "id": id, "name": settings.agent_name(&agent) }))
            .collect();
        Ok(told(json!({ "requester": caller.scope.agent, "agents": agents })))
    }
}
