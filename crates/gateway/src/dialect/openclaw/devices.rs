//! `device.*` and `node.pair.*`: which devices may connect. A node is a device in the role `node`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gate::{Gate, Shared};
use crate::methods::{Caller, Nothing};
use crate::ws::devices::{Describes, Grant, Paired, Pending, Unwritten};
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

/// A paired device as clients list it: without anything that proves it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceRow {
    device_id: String,
    public_key: String,
    #[serde(flatten)]
    describes: Describes,
    roles: Vec<String>,
    tokens: Vec<TokenRow>,
    created_at_ms: i64,
    approved_at_ms: i64,
}

/// That a device has a token in a role, and never the token.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenRow {
    role: String,
    scopes: Vec<String>,
    created_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rotated_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at_ms: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeviceRows {
    pending: Vec<Pending>,
    paired: Vec<DeviceRow>,
}

/// What belongs to a device that is a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}OfNode")]
pub(crate) struct OfNode<T> {
    node_id: String,
    #[serde(flatten)]
    of: T,
}

impl<T> OfNode<T> {
    fn new(node: &str, of: T) -> Self {
        Self { node_id: node.to_owned(), of }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PairedNodes {
    pending: Vec<OfNode<Pending>>,
    paired: Vec<OfNode<DeviceRow>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PairApproved {
    request_id: String,
    device: DeviceRow,
    /// The same: a node is a device.
    node: DeviceRow,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub(crate) struct PairRejected {
    request_id: String,
    device_id: String,
    node_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenRotated {
    device_id: String,
    role: String,
    token: String,
    scopes: Vec<String>,
    rotated_at_ms: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenRevoked {
    device_id: String,
    role: String,
    revoked_at_ms: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeRenamed {
    node_id: String,
    display_name: String,
}

/// A request is over, to those who may approve it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PairResolved<'a> {
    request_id: &'a str,
    device_id: &'a str,
    decision: &'a str,
    ts: i64,
}

/// Tells those who may approve it that a device asks.
pub(crate) fn tell_request(hub: &Hub, pending: &Pending) {
    hub.broadcast("device.pair.requested", pending, HEARD, Weight::Kept);
    if pending.role == NODE {
        let payload = OfNode::new(&pending.device_id, pending);
        hub.broadcast("node.pair.requested", &payload, HEARD, Weight::Kept);
    }
}

fn tell_resolved(gate: &Gate, pending: &Pending, decision: &str) {
    let hub = &gate.shared.hub;
    let payload = PairResolved {
        request_id: &pending.request_id,
        device_id: &pending.device_id,
        decision,
        ts: gate.shared.now(),
    };
    hub.broadcast("device.pair.resolved", &payload, HEARD, Weight::Kept);
    if pending.role == NODE {
        let payload = OfNode::new(&pending.device_id, payload);
        hub.broadcast("node.pair.resolved", &payload, HEARD, Weight::Kept);
    }
}

fn shown(paired: &Paired) -> DeviceRow {
    let token = |(role, grant): (&String, &Grant)| TokenRow {
        role: role.clone(),
        scopes: grant.scopes.clone(),
        created_at_ms: grant.created_at_ms,
        rotated_at_ms: grant.rotated_at_ms,
        revoked_at_ms: grant.revoked_at_ms,
    };
    DeviceRow {
        device_id: paired.device_id.clone(),
        public_key: paired.public_key.clone(),
        describes: paired.describes.clone(),
        roles: paired.roles.keys().cloned().collect(),
        tokens: paired.roles.iter().map(token).collect(),
        created_at_ms: paired.created_at_ms,
        approved_at_ms: paired.approved_at_ms,
    }
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

pub(crate) async fn list(caller: Caller, _: Nothing) -> Result<DeviceRows, WireError> {
    let (pending, paired) = caller.gate.shared.hub.devices.list(caller.gate.shared.now());
    Ok(DeviceRows { pending, paired: paired.iter().map(shown).collect() })
}

pub(crate) async fn nodes(caller: Caller, _: Nothing) -> Result<PairedNodes, WireError> {
    let (pending, paired) = caller.gate.shared.hub.devices.list(caller.gate.shared.now());
    let pending = pending.into_iter().filter(|pending| pending.role == NODE);
    let paired = paired.iter().filter(|paired| paired.roles.contains_key(NODE));
    Ok(PairedNodes {
        pending: pending.map(|pending| OfNode::new(&pending.device_id.clone(), pending)).collect(),
        paired: paired.map(|paired| OfNode::new(&paired.device_id, shown(paired))).collect(),
    })
}

fn take(gate: &Gate, request: &str) -> Result<Pending, WireError> {
    let taken = gate.shared.hub.devices.take(request, gate.shared.now());
    taken.ok_or_else(|| WireError::invalid("unknown requestId"))
}

pub(crate) async fn approve(caller: Caller, params: PairRequest) -> Result<PairApproved, WireError> {
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
    Ok(PairApproved { request_id: params.request_id, device: device.clone(), node: device })
}

pub(crate) async fn reject(caller: Caller, params: PairRequest) -> Result<PairRejected, WireError> {
    let gate = &caller.gate;
    let pending = take(gate, &params.request_id)?;
    tell_resolved(gate, &pending, "rejected");
    let device_id = pending.device_id;
    Ok(PairRejected { request_id: params.request_id, node_id: device_id.clone(), device_id })
}

pub(crate) async fn rotate(caller: Caller, params: TokenOf) -> Result<TokenRotated, WireError> {
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
    Ok(TokenRotated { device_id, role, token, scopes: grant.scopes, rotated_at_ms: grant.rotated_at_ms })
}

pub(crate) async fn revoke(caller: Caller, params: TokenOf) -> Result<TokenRevoked, WireError> {
    let gate = &caller.gate;
    let TokenOf { device_id, role, .. } = params;
    let (device, of_role) = (device_id.clone(), role.clone());
    let grant = writing(gate, move |shared, now| shared.hub.devices.revoke(&device, &of_role, now)).await?;
    let grant = grant.ok_or_else(|| WireError::invalid("unknown deviceId/role"))?;
    gate.shared.hub.remove_device(&device_id);
    Ok(TokenRevoked { device_id, role, revoked_at_ms: grant.revoked_at_ms })
}

pub(crate) async fn rename(caller: Caller, params: NodeRename) -> Result<NodeRenamed, WireError> {
    let (node, name) = (params.node_id.clone(), params.display_name.trim().to_owned());
    let told = name.clone();
    let known = writing(&caller.gate, move |shared, _| shared.hub.devices.rename(&node, &name)).await?;
    if !known {
        return Err(WireError::invalid("unknown nodeId"));
    }
    Ok(NodeRenamed { node_id: params.node_id, display_name: told })
}
