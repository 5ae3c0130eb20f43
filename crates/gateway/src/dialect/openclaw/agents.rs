//! Which agents the house has, and their tools and models: `agents.list`, `agent.identity.get`, `tools.effective`,
//! `models.list`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_engine::Wish;
use tidegate_protocol::AgentId;

use super::keys;
use crate::methods::{Caller, Nothing};
use crate::ws::frame::WireError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    agent_id: Option<String>,
    session_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ModelsList {
    agent_id: Option<String>,
    view: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentList {
    default_id: String,
    main_key: &'static str,
    scope: &'static str,
    ownership: &'static str,
    selection_required: bool,
    agents: Vec<AgentRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentRow {
    id: String,
    name: String,
    identity: AgentName,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<PathBuf>,
    /// A page that finds no model here does not let anybody write.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<AgentModels>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentName {
    name: String,
}

/// What an agent asks first, and what when that fails.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentModels {
    primary: String,
    fallbacks: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIdentity {
    agent_id: AgentId,
    name: AgentId,
    name_source: &'static str,
    /// One letter.
    avatar: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EffectiveTools {
    agent_id: AgentId,
    profile: &'static str,
    groups: Vec<ToolGroup>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolGroup {
    id: &'static str,
    label: &'static str,
    source: &'static str,
    tools: Vec<ToolRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolRow {
    id: String,
    label: String,
    description: String,
    raw_description: String,
    source: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelRows {
    models: Vec<ModelRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelRow {
    id: String,
    name: String,
    provider: String,
    /// Tokens.
    context_window: u32,
    reasoning: bool,
    /// `text`, and `image` for one that reads them.
    input: &'static [&'static str],
}

pub(crate) async fn agents(caller: Caller, _: Nothing) -> Result<AgentList, WireError> {
    let engine = caller.gate.engine();
    let settings = engine.settings();
    let names = settings.agents();
    let agent = |name: &&str| {
        let scope = settings.scope(Some(name)).ok();
        let spec = scope.as_ref().and_then(|scope| settings.run_spec(scope, &Wish::default()).ok());
        let mut models = spec.into_iter().flat_map(|spec| spec.models).map(|model| model.to_string());
        AgentRow {
            id: (*name).to_owned(),
            name: (*name).to_owned(),
            identity: AgentName { name: (*name).to_owned() },
            workspace: scope.map(|scope| engine.home().workspace(&scope.agent)),
            model: models.next().map(|primary| AgentModels { primary, fallbacks: models.collect() }),
        }
    };
    Ok(AgentList {
        default_id: names[0].to_owned(),
        main_key: "main",
        scope: "per-sender",
        ownership: "sole",
        selection_required: false,
        agents: names.iter().map(agent).collect(),
    })
}

pub(crate) async fn identity(caller: Caller, params: Identity) -> Result<AgentIdentity, WireError> {
    let engine = caller.gate.engine();
    let agent = match (params.agent_id.as_deref(), params.session_key.as_deref()) {
        (Some(agent), _) if !agent.trim().is_empty() => engine.settings().scope(Some(agent.trim()))?.agent,
        (_, Some(key)) if !key.trim().is_empty() => {
            keys::read(engine.settings(), engine.tenant(), None, key)?.scope.agent
        }
        _ => engine.settings().scope(None)?.agent,
    };
    let avatar = agent.as_str().chars().next().unwrap_or('A').to_uppercase().to_string();
    Ok(AgentIdentity { agent_id: agent.clone(), name: agent, name_source: "config", avatar })
}

/// The tools of an agent, for a page that shows them.
pub(crate) async fn tools(caller: Caller, params: Identity) -> Result<EffectiveTools, WireError> {
    let engine = caller.gate.engine();
    let (agent, session) = (params.agent_id.as_deref(), params.session_key.as_deref().unwrap_or("main"));
    let key = keys::read(engine.settings(), engine.tenant(), agent, session)?;
    let row = |(name, about): (String, String)| ToolRow {
        id: name.clone(),
        label: name,
        description: about.clone(),
        raw_description: about,
        source: "core",
    };
    let tools = engine.tools_on_offer(&key.to_string())?.into_iter().map(row).collect();
    let groups = vec![ToolGroup { id: "core", label: "Tools", source: "core", tools }];
    Ok(EffectiveTools { agent_id: key.scope.agent, profile: "configured", groups })
}

pub(crate) async fn models(caller: Caller, _: ModelsList) -> Result<ModelRows, WireError> {
    let settings = caller.gate.engine().settings();
    let mut models = Vec::new();
    for provider in settings.catalogue().providers() {
        models.extend(provider.models.iter().map(|model| ModelRow {
            id: model.id.clone(),
            name: model.name.clone(),
            provider: provider.id.clone(),
            context_window: model.context_window,
            reasoning: model.reasoning,
            input: if model.images { &["text", "image"] } else { &["text"] },
        }));
    }
    Ok(ModelRows { models })
}
