//! A run: what it was promised (`RunSpec`) and where it stands (`RunState`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::brought::Brought;
use crate::inbound::OutboundTarget;
use crate::key::SessionKey;
use crate::lane::Lane;
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
    #[serde(default)]
    pub tools: ToolUse,
    /// What is to be done in place of asking a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<RunCommand>,
    /// Side effects are decided, recorded and shown, and none happens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// How many runs started one another before this one: 0 for a person's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u8,
    /// Among which runs it waits for a place; by its conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// How much of the work the reply shows besides the answer.
    #[serde(default, skip_serializing_if = "Verbose::is_off")]
    pub verbose: Verbose,
    /// What the program that asks brings along. Boxed: most bring nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Box<Brought>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(depth: &u8) -> bool {
    *depth == 0
}

/// How a run may use tools, within what policy allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolUse {
    /// The model may call them.
    pub model: bool,
    /// A person may, with the prefix `tool:`.
    pub manual: bool,
    /// Only these; all that policy allows when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Rounds of tool calls before the model has to answer without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The folder file tools are held to; the agent's workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Nobody is there to approve anything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
}

impl Default for ToolUse {
    fn default() -> Self {
        Self { model: true, manual: false, allow: None, max_steps: None, root: None, unattended: false }
    }
}

/// A message that is a command: it keeps its place among the others and calls no model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "command", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunCommand {
    /// The conversation begins anew with the next message.
    Reset,
    /// Sum the conversation up now.
    Compact {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// Answer with this text.
    Say {
        text: String,
        /// The one line of the turn that joins the log; none does when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        logged: Option<Logged>,
    },
}

/// The line that a turn without a model leaves in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum Logged {
    /// What came in: the next run reads it.
    Question,
    /// What is said, marked as put there.
    Answer,
}

/// How a message that comes while its session is busy takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum JoinMode {
    /// Read by the run under way after its current tool; what it wanted to do next is left.
    Steer,
    /// Read by it after its current round of tools, which is done to its end.
    Note,
    /// Read by it when it would stop.
    FollowUp,
}

impl JoinMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Note => "note",
            Self::FollowUp => "followUp",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "steer" => Some(Self::Steer),
            "note" => Some(Self::Note),
            "followUp" => Some(Self::FollowUp),
            _ => None,
        }
    }
}

/// What somebody chose for a conversation, until they choose otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionSettings {
    /// `provider/model` or an alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<Verbose>,
}

/// How much of the work is shown besides the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "lowercase")]
pub enum Verbose {
    #[default]
    Off,
    /// Which tools run.
    On,
    /// And what came of them.
    Full,
}

impl Verbose {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// The level's own name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Full => "full",
        }
    }

    /// The level a person means, in any of the words people use for it.
    pub fn parse_alias(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" | "no" | "0" => Self::Off,
            "on" | "minimal" | "true" | "yes" | "1" => Self::On,
            "full" | "all" | "everything" => Self::Full,
            _ => return None,
        })
    }
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

impl ThinkingLevel {
    /// From none to the most.
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh];

    /// The level's own name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// The level a person means, in any of the words people use for it.
    pub fn parse_alias(text: &str) -> Option<Self> {
        let word: String = text
            .trim()
            .chars()
            .filter(|c| !matches!(c, '-' | '_' | ' '))
            .flat_map(char::to_lowercase)
            .collect();
        Some(match word.as_str() {
            "off" => Self::Off,
            "minimal" | "min" | "think" => Self::Minimal,
            "low" | "on" | "enable" | "enabled" | "thinkhard" => Self::Low,
            "medium" | "med" | "mid" | "thinkharder" | "harder" => Self::Medium,
            "high" | "highest" | "max" | "ultra" | "ultrathink" | "thinkhardest" => Self::High,
            "xhigh" | "extrahigh" => Self::Xhigh,
            _ => return None,
        })
    }
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
    /// How many earlier turns the model is shown, as far as they fit its window. A turn begins with a person's message.
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
        Self {
            config_revision: config_revision.into(),
            models,
            profile: None,
            thinking: None,
            limits,
            tools: ToolUse::default(),
            command: None,
            shadow: false,
            depth: 0,
            lane: None,
            verbose: Verbose::Off,
            brought: None,
        }
    }

    /// The lane of a run with this promise in that conversation.
    pub fn lane(&self, key: &SessionKey) -> Lane {
        self.lane.unwrap_or_else(|| Lane::of(key))
    }
}

impl ReplyTarget {
    /// Whether the run works for this conversation: what came of it is told there, or to a run that tells it there.
    pub fn announces_to(&self, conversation: &SessionKey) -> bool {
        match self {
            Self::Announce { key, reply, .. } => **key == *conversation || reply.announces_to(conversation),
            Self::Caller | Self::Session | Self::Channel { .. } => false,
        }
    }

    /// Whether an answer that goes to `other` reaches this one too. Which message it quotes makes no difference.
    pub fn is_reached_by(&self, other: &Self) -> bool {
        match (self, other) {
            // Whoever waits hears of every run's end, and the log is there for everybody.
            (Self::Caller | Self::Session, _) => true,
            (
                Self::Channel { channel, account_id, target, .. },
                Self::Channel { channel: to_channel, account_id: to_account, target: to_target, .. },
            ) => (channel, account_id, target) == (to_channel, to_account, to_target),
            (one, other) => one == other,
        }
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
    /// To another conversation: what came of it becomes a message there, and the answer to that goes where `reply` says.
    Announce {
        key: Box<SessionKey>,
        reply: Box<ReplyTarget>,
        /// What the work was called.
        label: String,
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
        /// Another run of the session took its message in; that run's end is its end.
        Joined = "joined",
    }
}

impl RunState {
    /// Whether this release knows the state as an end.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted | Self::Interrupted | Self::Joined)
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
        /// It was decided and recorded, and not run.
        Shadowed = "shadowed",
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

    #[test]
    fn people_name_a_level_in_many_ways() {
        use ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
        let words = [
            ("off", Some(Off)),
            ("on", Some(Low)),
            ("enabled", Some(Low)),
            ("minimal", Some(Minimal)),
            ("think", Some(Minimal)),
            ("thinkhard", Some(Low)),
            ("think-hard", Some(Low)),
            ("think_hard", Some(Low)),
            ("med", Some(Medium)),
            ("mid", Some(Medium)),
            ("thinkharder", Some(Medium)),
            ("harder", Some(Medium)),
            ("ultra", Some(High)),
            ("ultrathink", Some(High)),
            ("thinkhardest", Some(High)),
            ("max", Some(High)),
            ("highest", Some(High)),
            ("x-high", Some(Xhigh)),
            (" high", Some(High)),
            ("XHigh ", Some(Xhigh)),
            ("", None),
            ("loud", None),
        ];
        for (word, level) in words {
            assert_eq!(ThinkingLevel::parse_alias(word), level, "{word:?}");
        }
    }

    #[test]
    fn every_levels_own_name_is_read_as_that_level() {
        for level in ThinkingLevel::ALL {
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
            assert_eq!(ThinkingLevel::parse_alias(level.as_str()), Some(level));
        }
    }

    #[test]
    fn people_name_how_much_they_want_to_see_in_many_ways() {
        for (word, level) in [
            ("on", Some(Verbose::On)),
            ("TRUE", Some(Verbose::On)),
            ("yes", Some(Verbose::On)),
            ("1", Some(Verbose::On)),
            ("everything", Some(Verbose::Full)),
            (" no ", Some(Verbose::Off)),
            ("disabled", None),
            ("ask", None),
        ] {
            assert_eq!(Verbose::parse_alias(word), level, "{word}");
        }
        for level in [Verbose::Off, Verbose::On, Verbose::Full] {
            assert_eq!(Verbose::parse_alias(level.as_str()), Some(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
    }
}
