//! Section `channels`: the chat networks, by name.
//!
//! The names are checked here; what a network needs is known to its connector. Until a connector brings its own
//! section, its settings are carried as they are written.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::redact;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Channels {
    /// What holds for every network that does not say otherwise.
    pub defaults: Option<ChannelSettings>,
    /// Telegram.
    pub telegram: Option<ChannelSettings>,
    /// Discord.
    pub discord: Option<ChannelSettings>,
    /// Slack.
    pub slack: Option<ChannelSettings>,
    /// WhatsApp.
    pub whatsapp: Option<ChannelSettings>,
    /// Signal.
    pub signal: Option<ChannelSettings>,
    /// Matrix.
    pub matrix: Option<ChannelSettings>,
    /// Feishu.
    pub feishu: Option<ChannelSettings>,
    /// Files in a folder, for scripts and tests.
    pub local: Option<ChannelSettings>,
}

/// One network's settings. They hold tokens, so they print and serialize with those left out.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ChannelSettings(pub Map<String, Value>);

impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        redact::by_name(&self.0).fmt(f)
    }
}

impl Serialize for ChannelSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        redact::by_name(&self.0).serialize(serializer)
    }
}
