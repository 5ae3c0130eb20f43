//! A run: what it was promised (`RunSpec`) and where it stands (`RunState`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::inbound::OutboundTarget;
use crate::message::Cost;
use crate::name::ChannelName;

/// What recovery needs to go on with a run, fixed when it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// Hash of the configuration the run was accepted under.
    pub config_revision: String,
    /// The models to try, in order.
    pub models: Vec<ModelRef>,
    /// The credential to use and no other, when somebody named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingLevel>,
    pub limits: Limits,
}

/// How much a model is to think before it answers.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, TS,
)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    #[default]
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// A model by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct ModelRef {
    pub provider: String,
    pub model: String,
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Active time the run may take, in milliseconds.
    #[ts(type = "number")]
    pub deadline_ms: u64,
    /// How many earlier messages the model is shown.
    pub history: u32,
    /// What the run may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Cost>,
    /// Tokens of an answer at most; the model's own limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Time one model call may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub call_timeout_ms: Option<u64>,
}

impl RunSpec {
    /// What is promised when nobody asks for more.
    pub fn new(config_revision: impl Into<String>, models: Vec<ModelRef>, limits: Limits) -> Self {
        Self { config_revision: config_revision.into(), models, profile: None, thinking: None, limits }
    }
}

impl Limits {
    pub fn new(deadline_ms: u64, history: u32) -> Self {
        Self { deadline_ms, history, max_cost: None, max_tokens: None, call_timeout_ms: None }
    }
}

/// Where the answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "to", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ReplyTarget {
    /// To whoever waits for this run in the process that accepted it: the terminal event is the delivery.
    Caller,
    /// To whoever reads the session: the log is the delivery, so the run outlives its process.
    Session,
    /// To a network, through the outbox.
    Channel {
        channel: ChannelName,
        account_id: String,
        target: OutboundTarget,
        /// The network's id of the message that is answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_reply_to: Option<String>,
    },
}

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
        #[serde(rename_all = "camelCase")]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// Stored by a newer release; shown as it is and left alone.
            #[serde(untagged)]
            Unknown(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(raw) => raw,
                }
            }

            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }

            /// The states this release can write.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];
        }
    };
}

states! {
    /// Where a run stands.
    RunState {
        /// Accepted; waits for its turn in the session.
        Queued = "queued",
        /// Claimed by an owner under a fence.
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        /// Ended by somebody.
        Aborted = "aborted",
        /// Its process died and nobody waits for the answer.
        Interrupted = "interrupted",
    }
}

impl RunState {
    /// Whether this release knows the state as an end.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted | Self::Interrupted)
    }
}

states! {
    /// Where one execution of a tool stands.
    ToolRunState {
        /// Committed before the tool was started. After a crash its outcome is unknown.
        Intended = "intended",
        Succeeded = "succeeded",
        Failed = "failed",
        /// The process died while the tool may have run; the model is told.
        Interrupted = "interrupted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_stored_state_is_kept_and_is_no_end() {
        let state = RunState::parse("paused-by-a-newer-release");
        assert_eq!(state.as_str(), "paused-by-a-newer-release");
        assert!(!state.is_terminal());
    }

    #[test]
    fn every_known_state_comes_back_from_its_text_and_its_json() {
        for text in RunState::KNOWN {
            let state = RunState::parse(text);
            assert_eq!(state.as_str(), *text);
            assert_eq!(serde_json::to_value(&state).unwrap(), *text);
            assert!(!matches!(state, RunState::Unknown(_)));
        }
    }
}
