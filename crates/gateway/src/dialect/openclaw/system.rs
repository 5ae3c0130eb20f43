//! The house itself: how it stands, who is there, which agents and models it has.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_engine::Wish;
use tidegate_storage::SessionFilter;

use super::{keys, sessions};
use crate::api::metrics::lane_statuses;
use crate::gate::{Gate, VERSION};
use crate::methods::{Caller, Nothing};
use crate::ws::frame::WireError;
use crate::ws::hub::Resumed;

/// Conversations that a summary names.
const RECENT: u32 = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct Health {
    probe: Option<bool>,
}

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

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SystemEvent {
    #[schemars(length(min = 1))]
    text: String,
    host: Option<String>,
    ip: Option<String>,
    mode: Option<String>,
    version: Option<String>,
    platform: Option<String>,
    reason: Option<String>,
    instance_id: Option<String>,
    device_id: Option<String>,
    last_input_seconds: Option<f64>,
    tags: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resume {
    /// `server.bootId` of the hello in which the client heard the last broadcast.
    #[schemars(length(min = 1))]
    boot_id: String,
    /// The number of that broadcast.
    after_seq: u64,
}

/// Nobody wakes an agent by the clock yet.
fn no_heartbeat() -> Value {
    json!({ "enabled": false, "every": "disabled", "everyMs": null, "prompt": "", "target": "none", "ackMaxChars": 0 })
}

/// Reads it from the store; clients are told through [`crate::ws`]'s standing.
pub(crate) async fn read_health(gate: &Gate) -> Result<Value, WireError> {
    let began = std::time::Instant::now();
    let engine = gate.engine();
    let filter = SessionFilter { limit: RECENT, ..SessionFilter::default() };
    let rows = engine.library().sessions(engine.tenant(), filter).await?;
    let stored = engine.library().status(engine.tenant()).await?;
    let now = gate.shared.now();
    let recent: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "key": keys::write(&row.key), "updatedAt": row.updated_at, "age": now - row.updated_at }))
        .collect();
    let sessions = json!({ "path": "(database)", "count": stored.sessions, "recent": recent });
    let channels = engine.channels();
    let names: Vec<String> = channels.iter().map(|status| status.channel.to_string()).collect();
    let labels: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!(name))).collect();
    let states: serde_json::Map<String, Value> = channels
        .iter()
        .map(|status| (status.channel.to_string(), serde_json::to_value(status).unwrap_or_default()))
        .collect();
    let default = engine.settings().agents()[0].to_owned();
    let agents: Vec<Value> = engine
        .settings()
        .agents()
        .iter()
        .map(|agent| {
            json!({
                "agentId": agent, "isDefault": *agent == default, "heartbeat": no_heartbeat(),
                "sessions": { "path": "(database)", "count": 0, "recent": [] },
            })
        })
        .collect();
    Ok(json!({
        "ok": true, "ts": now, "durationMs": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "channels": states, "channelOrder": names, "channelLabels": labels, "heartbeatSeconds": 0,
        "defaultAgentId": default, "agents": agents, "sessions": sessions,
    }))
}

pub(crate) fn session_defaults(gate: &Gate) -> Value {
    let default = gate.engine().settings().agents()[0].to_owned();
    json!({
        "defaultAgentId": default, "mainKey": "main", "mainSessionKey": format!("agent:{default}:main"),
        "scope": "per-sender",
    })
}

pub(crate) async fn health(caller: Caller, _: Health) -> Result<Value, WireError> {
    let health = caller.gate.shared.hub.standing.read(&caller.gate).await?;
    Ok(Arc::unwrap_or_clone(health))
}

pub(crate) async fn status(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let health = gate.shared.hub.standing.read(gate).await?;
    let engine = gate.engine().health();
    Ok(json!({
        "runtimeVersion": VERSION, "ready": engine.ready, "problems": engine.problems,
        "heartbeat": { "defaultAgentId": health["defaultAgentId"], "agents": [] },
        "channelSummary": [], "queuedSystemEvents": [],
        "sessions": {
            "paths": ["(database)"], "count": health["sessions"]["count"], "defaults": sessions::defaults(gate),
            "recent": health["sessions"]["recent"], "byAgent": [],
        },
        "clients": gate.shared.hub.count(), "lanes": lane_statuses(&gate.engine().lanes()),
    }))
}

pub(crate) async fn channels_status(caller: Caller, _: ChannelsStatus) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let health = gate.shared.hub.standing.read(gate).await?;
    let accounts: serde_json::Map<String, Value> = gate
        .engine()
        .channels()
        .iter()
        .map(|status| (status.channel.to_string(), json!([serde_json::to_value(status).unwrap_or_default()])))
        .collect();
    Ok(json!({
        "ts": health["ts"], "channelOrder": health["channelOrder"], "channelLabels": health["channelLabels"],
        "channelDetailLabels": {}, "channelSystemImages": {}, "channelMeta": [], "channels": health["channels"],
        "channelAccounts": accounts, "channelDefaultAccountId": {},
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ChannelsStatus {
    probe: Option<bool>,
    #[schemars(range(min = 1000))]
    timeout_ms: Option<u64>,
}

pub(crate) async fn presence(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let now = gate.shared.now();
    let own = json!({
        "host": "tidegate", "version": VERSION, "platform": std::env::consts::OS, "mode": "gateway",
        "reason": "self", "ts": now,
    });
    Ok(Value::Array(gate.shared.hub.presence(own, now)))
}

/// A client says something about itself; others see who is there anew.
pub(crate) async fn system_event(caller: Caller, params: SystemEvent) -> Result<Value, WireError> {
    if params.text.trim().is_empty() {
        return Err(WireError::invalid("text required"));
    }
    caller.gate.shared.hub.presence_changed();
    Ok(json!({ "ok": true }))
}

pub(crate) async fn agents(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let settings = engine.settings();
    let names = settings.agents();
    let agents: Vec<Value> = names
        .iter()
        .map(|name| {
            let scope = settings.scope(Some(name)).ok();
            let spec = scope.as_ref().and_then(|scope| settings.run_spec(scope, &Wish::default()).ok());
            let mut agent = json!({ "id": name, "name": name, "identity": { "name": name } });
            if let Some(scope) = scope {
                agent["workspace"] = json!(engine.home().workspace(&scope.agent));
            }
            // A page that finds no model here does not let anybody write.
            if let Some(models) = spec.map(|spec| spec.models).filter(|models| !models.is_empty()) {
                let mut texts = models.iter().map(ToString::to_string);
                agent["model"] = json!({ "primary": texts.next(), "fallbacks": texts.collect::<Vec<_>>() });
            }
            agent
        })
        .collect();
    Ok(json!({
        "defaultId": names[0], "mainKey": "main", "scope": "per-sender", "ownership": "sole",
        "selectionRequired": false, "agents": agents,
    }))
}

pub(crate) async fn identity(caller: Caller, params: Identity) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let agent = match (params.agent_id.as_deref(), params.session_key.as_deref()) {
        (Some(agent), _) if !agent.trim().is_empty() => engine.settings().scope(Some(agent.trim()))?.agent,
        (_, Some(key)) if !key.trim().is_empty() => {
            keys::read(engine.settings(), engine.tenant(), None, key)?.scope.agent
        }
        _ => engine.settings().scope(None)?.agent,
    };
    let initial = agent.as_str().chars().next().unwrap_or('A').to_uppercase().to_string();
    Ok(json!({ "agentId": agent, "name": agent, "nameSource": "config", "avatar": initial }))
}

/// The tools of an agent, for a page that shows them.
pub(crate) async fn tools(caller: Caller, params: Identity) -> Result<Value, WireError> {
    let engine = caller.gate.engine();
    let (agent, session) = (params.agent_id.as_deref(), params.session_key.as_deref().unwrap_or("main"));
    let key = keys::read(engine.settings(), engine.tenant(), agent, session)?;
    let tools: Vec<Value> = engine
        .tools_on_offer(&key.to_string())?
        .into_iter()
        .map(|(name, about)| {
            json!({ "id": name, "label": name, "description": about, "rawDescription": about, "source": "core" })
        })
        .collect();
    let group = json!({ "id": "core", "label": "Tools", "source": "core", "tools": tools });
    Ok(json!({ "agentId": key.scope.agent, "profile": "configured", "groups": [group] }))
}

pub(crate) async fn models(caller: Caller, _: ModelsList) -> Result<Value, WireError> {
    let settings = caller.gate.engine().settings();
    let mut models = Vec::new();
    for provider in settings.catalogue().providers() {
        for model in &provider.models {
            let input = if model.images { json!(["text", "image"]) } else { json!(["text"]) };
            models.push(json!({
                "id": model.id, "name": model.name, "provider": provider.id, "contextWindow": model.context_window,
                "reasoning": model.reasoning, "input": input,
            }));
        }
    }
    Ok(json!({ "models": models }))
}

pub(crate) async fn info(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(json!({
        "machineName": "tidegate", "hostname": "tidegate", "platform": std::env::consts::OS, "release": VERSION,
        "arch": std::env::consts::ARCH, "osLabel": std::env::consts::OS, "nodeVersion": "none",
        "pid": std::process::id(), "processInstanceId": gate.shared.hub.boot,
        "uptimeMs": gate.shared.now() - gate.shared.started_at, "cpuCount": cpus,
        "memoryTotalBytes": 0, "memoryFreeBytes": 0,
    }))
}

/// What a client missed while it was away.
pub(crate) async fn resume(caller: Caller, params: Resume) -> Result<Value, WireError> {
    let resumed = caller.gate.shared.hub.resume(&caller.peer, &params.boot_id, params.after_seq);
    Ok(match resumed {
        Resumed::Yes { sent, seq } => json!({ "resumed": true, "sent": sent, "seq": seq }),
        Resumed::No { seq } => json!({ "resumed": false, "sent": 0, "seq": seq }),
    })
}
