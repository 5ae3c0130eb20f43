//! Section `hooks`: webhooks that wake the agent or give it work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Hooks {
    /// Whether webhooks are taken.
    pub enabled: bool,
    /// What callers prove themselves with, as `Authorization: Bearer` or `x-tidegate-token`. Required when enabled.
    pub token: Option<Secret>,
    /// The address they are below.
    pub path: String,
    /// Bytes of a body at most.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_body_bytes: u32,
    /// Mappings that come with the program: `gmail`.
    pub presets: Vec<String>,
    /// What webhooks under other names than `wake` and `agent` do; the first that fits counts.
    pub mappings: Vec<HookMapping>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            enabled: false,
            token: None,
            path: "/hooks".to_owned(),
            max_body_bytes: 256 * 1024,
            presets: Vec::new(),
            mappings: Vec::new(),
        }
    }
}

/// Texts may hold `{{places}}`: a key of the body (`a.b[0].c`), `headers.<name>`, `query.<name>`, `path`, `now`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HookMapping {
    /// How it is called in the log.
    pub id: Option<String>,
    /// Which webhooks it is for; all when absent.
    pub r#match: HookMatch,
    /// What is done.
    pub action: HookAction,
    /// When the agent is told.
    pub wake_mode: WakeMode,
    /// What the work is called.
    pub name: Option<String>,
    /// The conversation, below `hook:`; one of its own when absent.
    pub session_key: Option<String>,
    /// What the agent is asked, for `agent`.
    pub message_template: Option<String>,
    /// What the agent is told, for `wake`.
    pub text_template: Option<String>,
    /// Whether what came of it is told on; yes when absent.
    pub deliver: Option<bool>,
    /// Whether the agent may take what the body says for its owner's words. Leave it off for anything that strangers
    /// can write.
    pub allow_unsafe_external_content: Option<bool>,
    /// The channel it is told on; `last` tells it in the main conversation.
    pub channel: Option<String>,
    /// Whom it is told there.
    pub to: Option<String>,
    /// The model that is asked, as `provider/model` or an alias.
    pub model: Option<String>,
    /// How much it thinks.
    pub thinking: Option<String>,
    /// Seconds it may take.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HookMatch {
    /// The address below `hooks.path`.
    pub path: Option<String>,
    /// What the body says as `source`.
    pub source: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookAction {
    /// Tell the agent something in its main conversation.
    Wake,
    /// Give it work in a conversation of its own.
    #[default]
    Agent,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WakeMode {
    /// At once.
    #[default]
    Now,
    /// With its next heartbeat. There are no heartbeats yet: such webhooks are refused.
    NextHeartbeat,
}
