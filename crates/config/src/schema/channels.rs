//! Section `channels`: the chat networks, by name.
//!
//! The names are checked here; what a network needs is known to its connector. A network whose connector exists has a
//! typed section; until then its settings are carried as they are written.

use std::collections::BTreeMap;
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
    pub local: Option<LocalChannel>,
}

/// The network of files. One account reads one inbox and writes one outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(inline)]
pub struct LocalChannel {
    /// Whether the files are read and written.
    pub enabled: bool,
    /// The file that messages are appended to, a line each; `channels/local/default/inbox.jsonl` in the home when not
    /// set. A relative path starts in `channels/local`. Of the account `default`.
    #[schemars(length(min = 1))]
    pub inbox: Option<String>,
    /// The file that replies are appended to, a line each; `channels/local/default/outbox.jsonl` in the home when not
    /// set. Of the account `default`.
    #[schemars(length(min = 1))]
    pub outbox: Option<String>,
    /// Milliseconds between two looks at an inbox.
    #[schemars(range(min = 10, max = 60_000))]
    pub poll_ms: u32,
    /// Accounts by name, each with files of its own. Where there are any, `default` is one of them only if it is
    /// named, or `inbox` or `outbox` is set.
    pub accounts: BTreeMap<String, LocalAccount>,
}

impl Default for LocalChannel {
    fn default() -> Self {
        Self { enabled: true, inbox: None, outbox: None, poll_ms: 1_000, accounts: BTreeMap::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LocalAccount {
    /// Whether the account's files are read and written.
    pub enabled: bool,
    /// The account's inbox; `channels/local/<name>/inbox.jsonl` in the home when not set.
    #[schemars(length(min = 1))]
    pub inbox: Option<String>,
    /// The account's outbox; `channels/local/<name>/outbox.jsonl` in the home when not set.
    #[schemars(length(min = 1))]
    pub outbox: Option<String>,
    /// Milliseconds between two looks at the inbox; `channels.local.pollMs` when not set.
    #[schemars(range(min = 10, max = 60_000))]
    pub poll_ms: Option<u32>,
}

impl Default for LocalAccount {
    fn default() -> Self {
        Self { enabled: true, inbox: None, outbox: None, poll_ms: None }
    }
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
