//! `agents_list`: which agents can be started.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_protocol::AgentId;
use tidegate_tools::{Output, ToolFailure};

use super::caller::Caller;
use super::look::Look;
use super::told;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {}

pub(super) struct AgentsList;

#[async_trait]
impl Look for AgentsList {
    type Args = Args;
    const NAME: &'static str = "agents_list";
    const DESCRIPTION: &'static str = "Agents that sessions_spawn may start.";

    async fn look(caller: &Caller, _args: Args) -> Result<Output, ToolFailure> {
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
