//! What becomes of a plan: security, ask and the allowlist.

use tidegate_protocol::AllowRuleId;

use super::ExecPolicy;
use super::plan::Plan;
use crate::approval::AllowRule;
use crate::tools::Verdict;

/// What is decided about a plan, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecVerdict {
    pub verdict: Verdict,
    /// A key of the configuration, or the name of a built-in rule.
    pub rule: String,
    pub reason: String,
    /// Whether a saved rule could answer the question from now on.
    pub can_be_saved: bool,
    /// For each program in order, the saved rule that covers it, if one does.
    pub covered: Vec<Option<AllowRuleId>>,
}

/// Decides about a plan. `allowed` are the saved rules of this agent for this tool.
pub fn judge(plan: &Plan, _policy: &ExecPolicy, _allowed: &[AllowRule]) -> ExecVerdict {
    ExecVerdict {
        verdict: Verdict::Deny,
        rule: "exec".to_owned(),
        reason: "commands are not decided about yet".to_owned(),
        can_be_saved: false,
        covered: plan.launches().map(|_| None).collect(),
    }
}
