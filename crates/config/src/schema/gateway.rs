//! Section `gateway`: where the gateway listens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Gateway {
    /// TCP port of the gateway (HTTP and WebSocket on the same port).
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Who can reach the port.
    pub bind: Bind,
    /// Names under which the gateway is reached besides its own address, such as `tidegate.lan`. Requests for any other
    /// name are refused, so that no page elsewhere can pretend to be this one.
    pub hosts: Vec<String>,
    /// Seconds that runs under way may take to end when the gateway stops; the rest goes on at the next start.
    #[schemars(range(max = 3600))]
    pub drain_seconds: u32,
    /// Another page beside the gateway's own.
    pub control_ui: ControlUi,
}

/// OpenClaw's Control UI, or any page that speaks its protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ControlUi {
    /// The folder with its `index.html`, served below `/control-ui/`; relative to the home. Whoever can write there can do
    /// what a logged-in browser can.
    pub root: Option<String>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            port: 18_789,
            bind: Bind::default(),
            hosts: Vec::new(),
            drain_seconds: 20,
            control_ui: ControlUi::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Only this computer.
    #[default]
    Loopback,
    /// Every computer in the local network.
    Lan,
}
