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
    /// When a conversation starts afresh by itself. Without it: every day at 4, and one that has a name of its own never.
    pub reset: Option<Reset>,
    /// The same for some conversations only. What is left out here is as in `reset`.
    pub reset_by_type: ResetByType,
    /// The same for a network, by its name as in `channels`. It beats `resetByType`.
    pub reset_by_channel: BTreeMap<String, ResetOverride>,
    /// Further words that begin a new conversation when a message starts with them, as `/new` does.
    #[schemars(inner(length(min = 1)))]
    pub reset_triggers: Vec<String>,
    /// What `/new` and `/reset` do while an answer is being made.
    pub reset_during_run: ResetDuringRun,
    /// Who may change a conversation of a group by commands and directives, end what others asked there, and see what it
    /// costs. From others such commands are ignored, and such directives are words like any other: they can end only
    /// what they asked themselves, by `/stop` or a word like `wait`, and ask for `/help`, `/title`, `/think`, `/verbose`
    /// and a `/status` without its costs.
    pub group_commands: GroupCommands,
    /// The time zone of the daily reset, as `Europe/Berlin`; without it `budgets.timezone`, else UTC.
    #[schemars(length(min = 1))]
    pub timezone: Option<String>,
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
    /// The hour of the day for `daily`.
    #[schemars(range(max = 23))]
    pub at_hour: u8,
    /// Minutes of silence after which it ends, beside the hour of the day too. For `idle` 60 without it.
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
    /// Nothing but `/new`.
    Off,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResetDuringRun {
    /// Wait for it.
    #[default]
    After,
    /// End it.
    Abort,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupCommands {
    /// Only you, from the page or a terminal.
    #[default]
    Owner,
    /// Every member of the group.
    Everyone,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResetByType {
    /// Conversations with one person.
    pub dm: Option<ResetOverride>,
    /// Groups and rooms.
    pub group: Option<ResetOverride>,
    /// Threads, wherever they hang.
    pub thread: Option<ResetOverride>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResetOverride {
    /// What ends a conversation.
    pub mode: Option<ResetMode>,
    /// The hour of the day for `daily`.
    #[schemars(range(max = 23))]
    pub at_hour: Option<u8>,
    /// Minutes of silence after which it ends.
    #[schemars(range(min = 1))]
    pub idle_minutes: Option<u32>,
}
