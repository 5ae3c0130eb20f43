//! Approvals: a question to a person, its one answer, its one use.
//!
//! A state machine over plain values; the store runs it inside a transaction, so that two answers have one winner. A
//! [`Grant`] comes only from using up an approval that was answered with yes, for exactly the call it was asked about.

mod question;
mod rule;
mod shell;
mod state;
mod view;

use serde::{Deserialize, Serialize};
use tidegate_protocol::{AllowRuleId, ApprovalId, RunId, Scope};

use crate::call::Subject;
use crate::digest::Digest;

pub use state::Answering;
pub use view::{allow_rule_view, rule_in_words, view};

/// How long after a question's time a yes may still be used: one that came in the last second is worth something.
pub const GRACE_MS: i64 = 60_000;

/// Where a question stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    Pending,
    /// Answered with yes, not used yet.
    Approved,
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Whoever asked no longer waits.
    Cancelled,
    /// The call it allowed has begun.
    Used,
    /// Written by a newer release; left alone.
    Unknown(String),
}

/// A question and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub scope: Scope,
    pub session: String,
    /// The run that waits, if one does.
    pub run: Option<RunId>,
    pub call_id: String,
    pub tool: String,
    pub digest: Digest,
    /// The actor who asked.
    pub requester: String,
    pub question: Question,
    pub state: ApprovalState,
    pub answered: Option<Answered>,
    pub created_at: i64,
    pub expires_at: i64,
    /// When the state last changed.
    pub updated_at: i64,
}

/// Who answered, and what they said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub by: String,
    pub reason: Option<String>,
    /// The rule that was saved with a yes.
    pub rule: Option<AllowRuleId>,
    pub at: i64,
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    AllowOnce,
    /// Yes, and a rule so that the same is not asked again.
    AllowAlways(NewAllowRule),
    Deny {
        reason: Option<String>,
    },
}

/// Whether people may approve what they asked for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCalls {
    MayApprove,
    /// They may still say no.
    MayNotApprove,
}

/// What is shown to whoever decides: the real call, never a summary that a model wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub tool: String,
    /// The arguments as they came.
    pub args: serde_json::Value,
    /// The folder it is held to: what its paths are relative to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// The programs that would start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<crate::exec::Plan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Why it is asked.
    pub reason: String,
    /// What `allow-always` would save; absent when it cannot be saved.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "rule::readable")]
    pub rule: Option<AllowMatch>,
}

/// A saved yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    pub id: AllowRuleId,
    pub scope: Scope,
    pub tool: String,
    pub matches: AllowMatch,
    pub created_by: String,
    /// The question it came from, if it came from one.
    pub approval: Option<ApprovalId>,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
}

/// A rule to be saved with a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAllowRule {
    pub id: AllowRuleId,
    /// From [`Question::rule_for`]; anything else is refused.
    pub matches: AllowMatch,
}

/// Which calls a saved rule covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AllowMatch {
    /// A command of which every program is covered by one of these.
    Commands(Vec<CommandMatch>),
    /// A call of the tool that touches exactly these.
    Subjects(Vec<Subject>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandMatch {
    /// Absolute path.
    pub program: String,
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// More arguments may follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// Proof that an approval was used up for one call. Made by [`Approval::use_up`] only.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    approval: ApprovalId,
    digest: Digest,
}

impl Grant {
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// Why an approval cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UseRefused {
    #[error("the approval was given for another call")]
    OtherCall,
    #[error("the approval is {}", .0.as_str())]
    State(ApprovalState),
}

impl ApprovalState {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Used => "used",
            Self::Unknown(raw) => raw,
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "pending" => Self::Pending,
            "approved" => Self::Approved,
            "denied" => Self::Denied,
            "expired" => Self::Expired,
            "cancelled" => Self::Cancelled,
            "used" => Self::Used,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
