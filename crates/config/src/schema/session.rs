//! Section `session`: which messages share a conversation, and when one starts afresh.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Session {
    /// Which direct messages share a conversation. Without it: `main` while one person is paired, else
    /// `per-channel-peer`.
    pub dm_scope: Option<DmScope>,
    /// When a conversation starts afresh by itself.
    pub reset: Option<Reset>,
    /// One person's accounts on several networks, by a name of your choice: `["telegram:1", "slack:U2"]`.
    pub identity_links: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DmScope {
    /// All direct messages in one.
    Main,
    /// One for each person.
    PerPeer,
    /// One for each person on each network.
    PerChannelPeer,
    /// One for each person on each account of a network.
    PerAccountChannelPeer,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Reset {
    /// What ends a conversation.
    pub mode: ResetMode,
    /// The hour of the day, local time, for `daily`.
    #[schemars(range(max = 23))]
    pub at_hour: u8,
    /// Minutes of silence after which it ends, in either mode.
    #[schemars(range(min = 1))]
    pub idle_minutes: Option<u32>,
}

impl Default for Reset {
    fn default() -> Self {
        Self { mode: ResetMode::default(), at_hour: 4, idle_minutes: None }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResetMode {
    /// An hour of the day.
    #[default]
    Daily,
    /// Silence.
    Idle,
}
