//! What the first request of a client says: who it is, what it speaks, as what it wants to enter.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::methods::schema_of;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct Connect {
    #[schemars(range(min = 1))]
    pub(crate) min_protocol: u32,
    #[schemars(range(min = 1))]
    pub(crate) max_protocol: u32,
    pub(crate) client: Client,
    #[serde(default)]
    pub(crate) caps: Vec<String>,
    #[serde(default)]
    pub(crate) commands: Vec<String>,
    #[serde(default)]
    pub(crate) permissions: BTreeMap<String, bool>,
    pub(crate) path_env: Option<String>,
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    pub(crate) device: Option<Device>,
    pub(crate) auth: Option<Auth>,
    pub(crate) locale: Option<String>,
    pub(crate) user_agent: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct Client {
    #[schemars(schema_with = "client_ids")]
    pub(crate) id: String,
    pub(crate) display_name: Option<String>,
    #[schemars(length(min = 1))]
    pub(crate) version: String,
    pub(crate) build_id: Option<String>,
    #[schemars(length(min = 1))]
    pub(crate) platform: String,
    pub(crate) device_family: Option<String>,
    pub(crate) model_identifier: Option<String>,
    pub(crate) time_zone: Option<String>,
    #[schemars(schema_with = "client_modes")]
    pub(crate) mode: String,
    pub(crate) instance_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Device {
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    #[schemars(length(min = 1))]
    pub(crate) public_key: String,
    #[schemars(length(min = 1))]
    pub(crate) signature: String,
    #[schemars(range(min = 0))]
    pub(crate) signed_at: i64,
    pub(crate) nonce: Option<String>,
}

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Auth {
    pub(crate) token: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) device_token: Option<String>,
    pub(crate) bootstrap_token: Option<String>,
}

impl Auth {
    /// Whether anything is there that could be a guess, in whichever field.
    pub(crate) fn has_secret(&self) -> bool {
        let Self { token, password, device_token, bootstrap_token } = self;
        [token, password, device_token, bootstrap_token]
            .into_iter()
            .any(|secret| secret.as_deref().is_some_and(|secret| !secret.is_empty()))
    }
}

/// Without what proves anything.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

/// Clients that carry the name of a release of theirs; the name changed twice.
const BRANDED: [&str; 11] = [
    "control-ui",
    "macos",
    "ios",
    "android",
    "probe",
    "tui",
    "linux",
    "watchos",
    "browser-copilot",
    "worker",
    "node",
];
const BRANDS: [&str; 3] = ["openclaw", "moltbot", "clawdbot"];
const UNBRANDED: [&str; 8] =
    ["webchat-ui", "webchat", "cli", "gateway-client", "node-host", "test", "fingerprint", "tidegate"];
const MODES: [&str; 8] = ["webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"];

fn one_of(texts: impl IntoIterator<Item = String>) -> Schema {
    let branches: Vec<Value> = texts.into_iter().map(|text| json!({ "const": text })).collect();
    Schema::try_from(json!({ "anyOf": branches })).unwrap_or_default()
}

fn client_ids(_: &mut SchemaGenerator) -> Schema {
    let branded = BRANDS.iter().flat_map(|brand| BRANDED.iter().map(move |id| format!("{brand}-{id}")));
    one_of(UNBRANDED.iter().map(|id| (*id).to_owned()).chain(branded))
}

fn client_modes(_: &mut SchemaGenerator) -> Schema {
    one_of(MODES.iter().map(|mode| (*mode).to_owned()))
}

/// What the first request has to look like.
pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<Connect>);

impl Client {
    /// One of which nothing but its name is known.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            id: name.to_owned(),
            display_name: None,
            version: String::new(),
            build_id: None,
            platform: String::new(),
            device_family: None,
            model_identifier: None,
            time_zone: None,
            mode: "backend".to_owned(),
            instance_id: None,
        }
    }

    /// Whether it is the page that OpenClaw brings.
    pub(crate) fn is_control_ui(&self) -> bool {
        self.id.ends_with("-control-ui")
    }

    /// Whether it handles what stands behind an answer before the answer itself. OpenClaw's terminal does when both arrive
    /// together: a run that is over at once, such as a command, would seem to be under way for ever.
    pub(crate) fn reads_late(&self) -> bool {
        self.id.ends_with("-tui")
    }

    /// Whether it is a page in a browser: then it must say where it was loaded from.
    pub(crate) fn is_page(&self) -> bool {
        self.is_control_ui() || self.id.starts_with("webchat") || self.mode == "webchat"
    }
}
