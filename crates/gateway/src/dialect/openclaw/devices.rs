//! `device.*` and `node.pair.*`: which devices may connect. A node is a device in the role `node`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gate::{Gate, Shared};
use crate::methods::{Caller, Nothing};
use crate::ws::devices::{Paired, Pending, Unwritten};
use crate::ws::frame::WireError;
use crate::ws::hub::Hub;
use crate::ws::outbox::Weight;
use crate::ws::peer::Audience;
use crate::ws::scope::{Need, may_grant};

const HEARD: Audience<'static> = Audience::Scope(Need::Pairing);
const NODE: &str = "node";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PairRequest {
    #[schemars(length(min = 1))]
    request_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenOf {
    #[schemars(length(min = 1))]
    device_id: String,
    #[schemars(length(min = 1))]
    role: String,
    scopes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeRename {
    #[schemars(length(min = 1))]
    node_id: String,
    #[schemars(length(min = 1))]
    display_name: String,
}

/// Tells those who may approve it that a device asks.
pub(crate) fn tell_request(hub: &Hub, pending: &Pending) {
    let payload = serde_json::to_value(pending).unwrap_or_default();
    hub.broadcast("device.pair.requested", &payload, HEARD, Weight::Kept);
    if pending.role == NODE {
        let mut payload = payload;
        payload["nodeId"] = json!(pending.device_id);
        hub.broadcast("node.pair.requested", &payload, HEARD, Weight::Kept);
    }
}

fn tell_resolved(gate: &Gate, pending: &Pending, decision: &str) {
    let hub = &gate.shared.hub;
    let mut payload = json!({
        "requestId": pending.request_id, "deviceId": pending.device_id, "decision": decision,
        "ts": gate.shared.now(),
    });
    hub.broadcast("device.pair.resolved", &payload, HEARD, Weight::Kept);
    if pending.role == NODE {
        payload["nodeId"] = json!(pending.device_id);
        hub.broadcast("node.pair.resolved", &payload, HEARD, Weight::Kept);
    }
}

/// A paired device as clients list it: without anything that proves it.
fn shown(paired: &Paired) -> Value {
    let tokens: Vec<Value> = paired
        .roles
        .iter()
        .map(|(role, grant)| {
            let mut token =
                json!({ "role": role, "scopes": grant.scopes, "createdAtMs": grant.created_at_ms });
            for (name, at) in [("rotatedAtMs", grant.rotated_at_ms), ("revokedAtMs", grant.revoked_at_ms)] {
                if let Some(at) = at {
                    token[name] = json!(at);
                }
            }
            token
        })
        .collect();
    let mut shown = serde_json::to_value(&paired.describes).unwrap_or_default();
    let roles: Vec<&String> = paired.roles.keys().collect();
    shown["deviceId"] = json!(paired.device_id);
    shown["publicKey"] = json!(paired.public_key);
    shown["roles"] = json!(roles);
    shown["tokens"] = json!(tokens);
    shown["createdAtMs"] = json!(paired.created_at_ms);
    shown["approvedAtMs"] = json!(paired.approved_at_ms);
    shown
}

/// Writes the file away from the tasks that serve sockets.
async fn writing<T: Send + 'static>(
    gate: &Gate,
    work: impl FnOnce(&Shared, i64) -> Result<T, Unwritten> + Send + 'static,
) -> Result<T, WireError> {
    let (shared, now) = (Arc::clone(&gate.shared), gate.shared.now());
    let done = tidegate_runtime::spawn_blocking("gateway.devices", move || work(&shared, now)).join().await;
    let done = done.map_err(|end| WireError::unavailable(end.to_string()))?;
    done.map_err(|error| WireError::unavailable(error.to_string()))
}

pub(crate) async fn list(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let (pending, paired) = caller.gate.shared.hub.devices.list(caller.gate.shared.now());
    Ok(json!({ "pending": pending, "paired": paired.iter().map(shown).collect::<Vec<_>>() }))
}

pub(crate) async fn nodes(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    let (pending, paired) = caller.gate.shared.hub.devices.list(caller.gate.shared.now());
    let pending: Vec<Value> = pending.iter().filter(|pending| pending.role == NODE).map(as_node).collect();
    let paired: Vec<Value> = paired
        .iter()
        .filter(|paired| paired.roles.contains_key(NODE))
        .map(|paired| {
            let mut node = shown(paired);
            node["nodeId"] = json!(paired.device_id);
            node
        })
        .collect();
    Ok(json!({ "pending": pending, "paired": paired }))
}

fn as_node(pending: &Pending) -> Value {
    let mut node = serde_json::to_value(pending).unwrap_or_default();
    node["nodeId"] = json!(pending.device_id);
    node
}

fn take(gate: &Gate, request: &str) -> Result<Pending, WireError> {
    let taken = gate.shared.hub.devices.take(request, gate.shared.now());
    taken.ok_or_else(|| WireError::invalid("unknown requestId"))
}

pub(crate) async fn approve(caller: Caller, params: PairRequest) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let devices = &gate.shared.hub.devices;
    let (waiting, _) = devices.list(gate.shared.now());
    if let Some(pending) = waiting.iter().find(|pending| pending.request_id == params.request_id) {
        may_grant(caller.peer.scopes, &pending.scopes).map_err(WireError::invalid)?;
    }
    let pending = take(gate, &params.request_id)?;
    let wanted = pending.wanted();
    let paired = writing(gate, move |shared, now| shared.hub.devices.pair(&wanted, now)).await?;
    tell_resolved(gate, &pending, "approved");
    let device = shown(&paired);
    Ok(json!({ "requestId": params.request_id, "device": device, "node": device }))
}

pub(crate) async fn reject(caller: Caller, params: PairRequest) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let pending = take(gate, &params.request_id)?;
    tell_resolved(gate, &pending, "rejected");
    let device = &pending.device_id;
    Ok(json!({ "requestId": params.request_id, "deviceId": device, "nodeId": device }))
}

pub(crate) async fn rotate(caller: Caller, params: TokenOf) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let TokenOf { device_id, role, scopes } = params;
    let (_, paired) = gate.shared.hub.devices.list(gate.shared.now());
    let known = paired.iter().find(|paired| paired.device_id == device_id);
    // Also one that was taken away: it would be given anew.
    if let Some(grant) = known.and_then(|paired| paired.roles.get(&role)) {
        let kept = |scope: &&String| scopes.as_ref().is_none_or(|wanted| wanted.contains(*scope));
        let minted: Vec<String> = grant.scopes.iter().filter(kept).cloned().collect();
        may_grant(caller.peer.scopes, &minted).map_err(WireError::invalid)?;
    }
    let (device, of_role) = (device_id.clone(), role.clone());
    let grant =
        writing(gate, move |shared, now| shared.hub.devices.rotate(&device, &of_role, scopes, now)).await?;
    let unknown = || WireError::invalid("unknown deviceId/role");
    let grant = grant.ok_or_else(unknown)?;
    let (token, _) = gate.shared.hub.devices.token(&device_id, &role).ok_or_else(unknown)?;
    // Whoever entered with the token before has to show the new one.
    gate.shared.hub.remove_others(&device_id, &caller.peer);
    Ok(json!({
        "deviceId": device_id, "role": role, "token": token, "scopes": grant.scopes,
        "rotatedAtMs": grant.rotated_at_ms,
    }))
}

pub(crate) async fn revoke(caller: Caller, params: TokenOf) -> Result<Value, WireError> {
    let gate = &caller.gate;
    let TokenOf { device_id, role, .. } = params;
    let (device, of_role) = (device_id.clone(), role.clone());
    let grant = writing(gate, move |shared, now| shared.hub.devices.revoke(&device, &of_role, now)).await?;
    let grant = grant.ok_or_else(|| WireError::invalid("unknown deviceId/role"))?;
    gate.shared.hub.remove_device(&device_id);
    Ok(json!({ "deviceId": device_id, "role": role, "revokedAtMs": grant.revoked_at_ms }))
}

pub(crate) async fn rename(caller: Caller, params: NodeRename) -> Result<Value, WireError> {
    let (node, name) = (params.node_id.clone(), params.display_name.trim().to_owned());
    let told = name.clone();
    let known = writing(&caller.gate, move |shared, _| shared.hub.devices.rename(&node, &name)).await?;
    if !known {
        return Err(WireError::invalid("unknown nodeId"));
    }
    Ok(json!({ "nodeId": params.node_id, "displayName": told }))
}
