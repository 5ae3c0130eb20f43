//! The tool policy pipeline: which tools an agent has, and what becomes of a call.
//!
//! Every stage may narrow and none may widen: a call's verdict is the strictest any stage gives. What the first one, the
//! profile, does not grant is denied, and so is a tool that nobody knows.

mod condition;
mod example;
mod glob;
mod names;
mod pipeline;
mod profile;
mod rule;
mod sender;
mod stage;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use tidegate_protocol::AllowRuleId;

use crate::approval::AllowRule;

pub use glob::fits;
pub use names::{BUILT_IN, normalise};
pub use pipeline::{Pipeline, ToolPolicy};
pub use profile::Profile;
pub use rule::{Conditions, Example, Examples, Rule, RuleMode, RuleProblem};
pub use sender::{Sender, by_sender};
pub use stage::{AlsoAllow, Base, Stage, Warning};

/// What becomes of a call. Ordered: a later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Allow,
    /// A person has to approve it.
    #[serde(rename = "approval-required")]
    Ask,
    Deny,
}

/// Where a decision fell. In the order in which they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// The list of what is never done, shipped with the program.
    Shipped,
    Profile,
    Provider,
    Global,
    Agent,
    Group,
    Sandbox,
    Subagent,
    /// What somebody asked for one run.
    Run,
    /// How far the session is trusted.
    Trust,
    /// How dangerous the tool is.
    Risk,
    /// Commands: security, ask and the allowlist.
    Exec,
    /// A yes that somebody saved.
    Saved,
    /// Which addresses may be called at all.
    Egress,
}

/// What was decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub verdict: Verdict,
    pub stage: StageKind,
    /// The rule that decided, as a person finds it: a key of the configuration or the name of a shipped rule.
    pub rule: String,
    pub reason: String,
    /// Whether a saved rule could answer the question from now on.
    pub can_be_saved: bool,
    /// The saved rule without which it would not be allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<AllowRuleId>,
    /// What each stage said, in order.
    pub trail: Vec<StageSaid>,
}

/// What one stage said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSaid {
    pub stage: StageKind,
    pub verdict: Verdict,
    pub rule: String,
}

impl Decision {
    /// A no that needs no other stage.
    pub(crate) fn denied(stage: StageKind, rule: &str, reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Deny,
            stage,
            rule: rule.to_owned(),
            reason: reason.into(),
            can_be_saved: false,
            allowed_by: None,
            trail: vec![StageSaid { stage, verdict: Verdict::Deny, rule: rule.to_owned() }],
        }
    }

    /// The call is not the one that was approved.
    pub(crate) fn changed_since_approval() -> Self {
        Self::denied(StageKind::Shipped, "approval", "the call is not the one that was approved")
    }

    /// Somebody had to say yes, and nobody did.
    pub(crate) fn unanswered(self) -> Self {
        let reason = format!("nobody answered in time ({})", self.reason);
        Self { verdict: Verdict::Deny, can_be_saved: false, reason, ..self }
    }
}

/// How far a session is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    #[default]
    Normal,
    /// It has seen what must not leave: no web tools.
    Sensitive,
}

/// The facts of one decision that are not in the call.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    pub trust: Trust,
    /// Rules saved by people who said `allow-always`. Those of other agents and other tools are passed over.
    pub allowed: &'a [AllowRule],
}
