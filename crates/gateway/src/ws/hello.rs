//! The answer to a handshake: what is spoken here, who is there, how things stand.

use serde_json::{Value, json};

use super::handshake::NEWEST;
use super::outbox::LARGEST;
use super::peer::{Dialect, Peer};
use super::scope::Role;
use super::{LARGEST_FRAME, pump};
use crate::dialect::openclaw::{EVENTS, system};
use crate::gate::{Gate, VERSION};
use crate::methods;

/// The token of the device that entered.
#[derive(Debug, Clone)]
pub(crate) struct DeviceToken {
    pub(crate) token: String,
    pub(crate) issued_at: i64,
}

/// How often a tick is told.
pub(crate) const TICK_MS: u64 = 30_000;

/// What clients of protocol 3 are told that a frame may weigh.
const OLDER_FRAME: usize = 512 * 1024;

pub(crate) async fn hello(gate: &Gate, peer: &Peer, token: Option<DeviceToken>) -> Value {
    let shared = &gate.shared;
    let now = shared.now();
    let scopes: Vec<&str> = match peer.role {
        Role::Node => Vec::new(),
        Role::Operator => peer.scopes.names(),
    };
    let mut auth = json!({ "role": peer.role.as_str(), "scopes": scopes });
    if let Some(DeviceToken { token, issued_at }) = token {
        auth["deviceToken"] = json!(token);
        auth["issuedAtMs"] = json!(issued_at);
    }
    let health = shared.hub.standing.read(gate).await;
    let health = health.map_or_else(|_| json!({}), |health| json!(*health));
    let mut server = json!({ "version": VERSION, "connId": peer.connection });
    if peer.protocol >= NEWEST {
        server["bootId"] = json!(shared.hub.boot);
    }
    // Clients of protocol 3 were written for smaller frames and attach nothing.
    let payload = if peer.protocol >= NEWEST { LARGEST_FRAME } else { OLDER_FRAME };
    json!({
        "type": "hello-ok",
        "protocol": peer.protocol,
        "server": server,
        "features": { "methods": methods::advertised(Dialect::Openclaw), "events": EVENTS },
        "snapshot": {
            "presence": shared.hub.presence(pump::own_presence(gate, now), now),
            "health": health,
            "stateVersion": shared.hub.versions(),
            "uptimeMs": now - shared.started_at,
            "configPath": gate.engine().home().config_file(),
            "stateDir": gate.engine().home().root(),
            "sessionDefaults": system::session_defaults(gate),
            "authMode": "token",
        },
        "auth": auth,
        "policy": { "maxPayload": payload, "maxBufferedBytes": LARGEST, "tickIntervalMs": TICK_MS },
    })
}
