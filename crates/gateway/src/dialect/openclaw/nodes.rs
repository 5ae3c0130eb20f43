//! `node.*`: devices that the gateway uses, such as a phone with a camera. Who is connected, and what they are asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::answers::{DONE, Done};
use crate::methods::{Caller, Nothing};
use crate::token::random_text;
use crate::ws::connect::Connect;
use crate::ws::devices::Describes;
use crate::ws::frame::WireError;
use crate::ws::peer::Peer;
use crate::ws::scope::Role;

/// How long a node may take when nobody says, and at most.
const WAIT: u64 = 30_000;
const LONGEST: u64 = 10 * 60 * 1000;
/// Questions to nodes that may wait at once.
const ASKED: usize = 1024;
/// Characters of what a node lets an agent be told.
const NODE_TEXT: usize = 20_000;

const CANVAS: [&str; 13] = [
    "canvas.present",
    "canvas.hide",
    "canvas.navigate",
    "canvas.eval",
    "canvas.snapshot",
    "canvas.a2ui.push",
    "canvas.a2ui.pushJSONL",
    "canvas.a2ui.reset",
    "camera.list",
    "camera.snap",
    "camera.clip",
    "screen.record",
    "location.get",
];
const HOST: [&str; 6] = [
    "system.run",
    "system.which",
    "system.notify",
    "system.execApprovals.get",
    "system.execApprovals.set",
    "browser.proxy",
];

/// Whether a node of a platform may be asked for a command at all. What the node itself declared is checked besides.
pub(crate) fn is_allowed(platform: &str, command: &str) -> bool {
    let platform = platform.to_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| platform.starts_with(name));
    let (device, host) = (CANVAS.contains(&command), HOST.contains(&command));
    if is(&["android"]) {
        return device || command == "sms.send";
    }
    if is(&["ios", "ipados", "watchos"]) {
        return device;
    }
    if is(&["mac", "darwin"]) {
        return device || host;
    }
    if is(&["linux", "win"]) {
        return host;
    }
    // A platform that nobody knows: whatever it declares.
    device || host || command == "sms.send"
}

struct Node {
    peer: Arc<Peer>,
    caps: Vec<String>,
    commands: Vec<String>,
    permissions: BTreeMap<String, bool>,
}

struct Asked {
    node: String,
    answer: oneshot::Sender<NodeAnswer>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<String, Node>,
    asked: HashMap<String, Asked>,
}

/// The nodes that are connected.
#[derive(Default)]
pub(crate) struct Nodes {
    state: Mutex<State>,
}

fn node_id(peer: &Peer) -> String {
    peer.device.clone().unwrap_or_else(|| peer.client.id.clone())
}

impl Nodes {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A node that connects again takes the place of its older connection.
    pub(crate) fn register(&self, peer: &Arc<Peer>, connect: &Connect) {
        let platform = &connect.client.platform;
        let commands =
            connect.commands.iter().filter(|command| is_allowed(platform, command)).cloned().collect();
        let node = Node {
            peer: Arc::clone(peer),
            caps: connect.caps.clone(),
            commands,
            permissions: connect.permissions.clone(),
        };
        self.with(|state| state.nodes.insert(node_id(peer), node));
    }

    /// Whoever waits for an answer of the node learns that it is gone.
    pub(crate) fn unregister(&self, peer: &Peer) {
        if peer.role != Role::Node {
            return;
        }
        let id = node_id(peer);
        self.with(|state| {
            if state.nodes.get(&id).is_some_and(|node| node.peer.number == peer.number) {
                state.nodes.remove(&id);
                state.asked.retain(|_, asked| asked.node != id);
            }
        });
    }

    fn answer(&self, from: &str, id: &str, answer: NodeAnswer) -> bool {
        let asked = self.with(|state| {
            let same = state.asked.get(id).is_some_and(|asked| asked.node == from);
            if same { state.asked.remove(id) } else { None }
        });
        asked.is_some_and(|asked| asked.answer.send(answer).is_ok())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeDescribe {
    #[schemars(length(min = 1))]
    node_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct NodeInvoke {
    #[schemars(length(min = 1))]
    node_id: String,
    #[schemars(length(min = 1))]
    command: String,
    params: Option<Value>,
    timeout_ms: Option<u64>,
    #[schemars(length(min = 1))]
    idempotency_key: String,
    session_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeFailure {
    code: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeAnswer {
    #[schemars(length(min = 1))]
    id: String,
    #[schemars(length(min = 1))]
    node_id: String,
    ok: bool,
    payload: Option<Value>,
    #[serde(rename = "payloadJSON")]
    payload_json: Option<String>,
    error: Option<NodeFailure>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeEvent {
    #[schemars(length(min = 1))]
    event: String,
    payload: Option<Value>,
    #[serde(rename = "payloadJSON")]
    payload_json: Option<String>,
}

/// A node as clients list it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeRow {
    node_id: String,
    #[serde(flatten)]
    describes: Describes,
    caps: Vec<String>,
    commands: Vec<String>,
    paired: bool,
    connected: bool,
    #[serde(flatten)]
    link: Option<NodeLink>,
}

/// What is known of a node that is connected.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeLink {
    version: String,
    permissions: BTreeMap<String, bool>,
    connected_at_ms: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeRows {
    ts: i64,
    nodes: Vec<NodeRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeDescribed {
    #[serde(flatten)]
    node: NodeRow,
    ts: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInvoked {
    ok: bool,
    node_id: String,
    command: String,
    /// What the node answered.
    payload: Option<Value>,
    /// The same as it was written.
    #[serde(rename = "payloadJSON")]
    payload_json: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeHeard {
    ok: bool,
    /// Nobody waits for it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<bool>,
}

/// Nodes that are paired or connected; those that are connected first.
fn all(caller: &Caller) -> Vec<NodeRow> {
    let hub = &caller.gate.shared.hub;
    let (_, paired) = hub.devices.list(caller.gate.shared.now());
    let mut nodes: BTreeMap<String, NodeRow> = BTreeMap::new();
    for device in paired.iter().filter(|device| device.roles.contains_key("node")) {
        let node = NodeRow { describes: device.describes.clone(), ..NodeRow::away(&device.device_id, true) };
        nodes.insert(device.device_id.clone(), node);
    }
    hub.nodes.with(|state| {
        for (id, connected) in &state.nodes {
            let node = nodes.entry(id.clone()).or_insert_with(|| NodeRow::away(id, false));
            let client = &connected.peer.client;
            node.describes.display_name = Some(connected.peer.name());
            node.describes.platform = Some(client.platform.clone());
            node.caps.clone_from(&connected.caps);
            node.commands.clone_from(&connected.commands);
            node.connected = true;
            node.link = Some(NodeLink {
                version: client.version.clone(),
                permissions: connected.permissions.clone(),
                connected_at_ms: connected.peer.connected_at,
            });
        }
    });
    let mut list: Vec<NodeRow> = nodes.into_values().collect();
    list.sort_by_key(|node| {
        let name = node.describes.display_name.clone();
        (!node.connected, name.is_none(), name)
    });
    list
}

impl NodeRow {
    /// One that is not connected.
    fn away(id: &str, paired: bool) -> Self {
        Self {
            node_id: id.to_owned(),
            describes: Describes::default(),
            caps: Vec::new(),
            commands: Vec::new(),
            paired,
            connected: false,
            link: None,
        }
    }
}

pub(crate) async fn list(caller: Caller, _: Nothing) -> Result<NodeRows, WireError> {
    Ok(NodeRows { ts: caller.gate.shared.now(), nodes: all(&caller) })
}

pub(crate) async fn describe(caller: Caller, params: NodeDescribe) -> Result<NodeDescribed, WireError> {
    let found = all(&caller).into_iter().find(|node| node.node_id == params.node_id);
    let node = found.ok_or_else(|| WireError::invalid("unknown nodeId"))?;
    Ok(NodeDescribed { node, ts: caller.gate.shared.now() })
}

/// Asks a node and waits for its answer.
pub(crate) async fn invoke(caller: Caller, params: NodeInvoke) -> Result<NodeInvoked, WireError> {
    let nodes = &caller.gate.shared.hub.nodes;
    let id = random_text::<16>().map_err(|error| WireError::unavailable(error.to_string()))?;
    let patience = params.timeout_ms.unwrap_or(WAIT).min(LONGEST);
    let (answer, receiver) = oneshot::channel();
    let put = nodes.with(|state| {
        let Some(node) = state.nodes.get(&params.node_id) else {
            let error = WireError::unavailable("node not connected");
            return Err(error.with_details(json!({ "code": "NOT_CONNECTED" })));
        };
        let refused = |reason: &str| {
            Err(WireError::invalid("node command not allowed")
                .with_details(json!({ "reason": reason, "command": params.command })))
        };
        if !is_allowed(&node.peer.client.platform, &params.command) {
            return refused("command not allowlisted");
        }
        if !node.commands.contains(&params.command) {
            return refused("command not declared by node");
        }
        if state.asked.len() >= ASKED {
            return Err(WireError::unavailable("too many questions to nodes wait for an answer"));
        }
        state.asked.insert(id.clone(), Asked { node: params.node_id.clone(), answer });
        Ok(Arc::clone(&node.peer))
    });
    let peer = put?;
    let asked = params.params.as_ref().map(ToString::to_string);
    let request = json!({
        "id": id, "nodeId": params.node_id, "command": params.command, "paramsJSON": asked,
        "timeoutMs": patience, "idempotencyKey": params.idempotency_key,
    });
    peer.tell("node.invoke.request", &request);
    let answer = tokio::time::timeout(Duration::from_millis(patience), receiver).await;
    nodes.with(|state| state.asked.remove(&id));
    let failed = |message: String, error: Value| {
        Err(WireError::unavailable(message).with_details(json!({ "nodeError": error })))
    };
    match answer {
        Err(_) => failed("node invoke timed out".into(), json!({ "code": "TIMEOUT" })),
        Ok(Err(_)) => failed("node disconnected".into(), json!({ "code": "NOT_CONNECTED" })),
        Ok(Ok(answer)) if answer.ok => {
            let parsed = || answer.payload_json.as_deref().and_then(|text| serde_json::from_str(text).ok());
            Ok(NodeInvoked {
                ok: true,
                node_id: params.node_id,
                command: params.command,
                payload: answer.payload.or_else(parsed),
                payload_json: answer.payload_json,
            })
        }
        Ok(Ok(answer)) => {
            let error = answer.error.unwrap_or(NodeFailure { code: None, message: None });
            let message = error.message.clone().unwrap_or_else(|| "node invoke failed".to_owned());
            failed(message, json!({ "code": error.code, "message": error.message }))
        }
    }
}

pub(crate) async fn result(caller: Caller, params: NodeAnswer) -> Result<NodeHeard, WireError> {
    let own = node_id(&caller.peer);
    if params.node_id != own {
        return Err(WireError::invalid("nodeId mismatch"));
    }
    let id = params.id.clone();
    let taken = caller.gate.shared.hub.nodes.answer(&own, &id, params);
    Ok(NodeHeard { ok: true, ignored: (!taken).then_some(true) })
}

/// What a node tells by itself. What it says for an agent goes to the agent's main conversation.
pub(crate) async fn event(caller: Caller, params: NodeEvent) -> Result<Done, WireError> {
    let parsed = || params.payload_json.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let payload = params.payload.clone().or_else(parsed).unwrap_or(Value::Null);
    let field = match params.event.as_str() {
        "voice.transcript" => "text",
        "agent.request" => "message",
        // Others are known to nodes of another time, and mean nothing here.
        _ => return Ok(DONE),
    };
    let text: String = payload[field].as_str().unwrap_or_default().trim().chars().take(NODE_TEXT).collect();
    if text.is_empty() {
        return Ok(DONE);
    }
    let gate = &caller.gate;
    let engine = gate.engine();
    let session = payload["sessionKey"].as_str().unwrap_or("main");
    let key = super::keys::read(engine.settings(), engine.tenant(), None, session)?;
    let name = match payload["key"].as_str() {
        Some(key) => format!("{}:{key}", node_id(&caller.peer)),
        None => random_text::<16>().map_err(|error| WireError::unavailable(error.to_string()))?,
    };
    let asking = super::agent::Asking {
        key,
        text,
        images: Vec::new(),
        name: &name,
        space: "node",
        wish: tidegate_engine::Wish::default(),
        // A device is no person: what it says is never a command.
        commands: false,
    };
    super::agent::submit(gate, asking).await?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_has_the_commands_that_it_can_have() {
        for (platform, command, allowed) in [
            ("iOS 18.1", "camera.snap", true),
            ("iOS 18.1", "system.run", false),
            ("ios", "sms.send", false),
            ("android", "sms.send", true),
            ("macOS", "system.run", true),
            ("darwin", "canvas.eval", true),
            ("linux", "system.run", true),
            ("linux", "camera.snap", false),
            ("toaster", "location.get", true),
            ("linux", "rm", false),
            ("toaster", "rm", false),
        ] {
            assert_eq!(is_allowed(platform, command), allowed, "{platform} {command}");
        }
    }
}
