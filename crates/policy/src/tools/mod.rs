//! The tool policy pipeline: which tools an agent has, and what becomes of a call.
//!
//! Every stage may narrow and none may widen: a call's verdict is the strictest any stage gives. What no stage grants
//! is denied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::approval::AllowRule;
use crate::call::Prepared;
use crate::exec::ExecPolicy;

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
    /// How far the session is trusted.
    Trust,
    /// Commands: security, ask and the allowlist.
    Exec,
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
    /// The call is not the one that was approved.
    pub(crate) fn changed_since_approval() -> Self {
        Self {
            verdict: Verdict::Deny,
            stage: StageKind::Shipped,
            rule: "approval".to_owned(),
            reason: "the call is not the one that was approved".to_owned(),
            can_be_saved: false,
            trail: Vec::new(),
        }
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
    /// Rules saved by people who said `allow-always`, those of this agent only.
    pub allowed: &'a [AllowRule],
}

/// The stages in force for one agent in one session.
#[derive(Debug, Clone, Default)]
pub struct Pipeline {
    pub stages: Vec<Stage>,
    pub exec: ExecPolicy,
}

/// One stage. Absent lists say nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub kind: StageKind,
    /// Where it is configured, such as `agents.list[main].tools`.
    pub source: String,
    /// Only these tools, by name, glob or group; all when absent.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// What becomes of calls of these tools: name, glob or group to verdict.
    pub modes: BTreeMap<String, Verdict>,
}

impl Pipeline {
    pub fn decide(&self, _prepared: &Prepared, _facts: &Circumstances<'_>) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            stage: StageKind::Shipped,
            rule: "default".to_owned(),
            reason: "no stage grants this tool".to_owned(),
            can_be_saved: false,
            trail: Vec::new(),
        }
    }
}
