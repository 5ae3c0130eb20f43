//! What becomes of a plan: security, ask and the allowlist.
//!
//! The list of what is never done is not looked at here; see `destructive`.

use tidegate_protocol::AllowRuleId;

use super::plan::{Launch, Plan};
use super::{Ask, ExecPolicy, Security, forbidden, safe_bins, saved};
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
pub fn judge(plan: &Plan, policy: &ExecPolicy, allowed: &[AllowRule]) -> ExecVerdict {
    let list = AllowList::of(plan, policy, allowed);
    let opinion = opinion(plan, policy, &list);
    ExecVerdict {
        verdict: opinion.verdict,
        rule: opinion.rule.to_owned(),
        reason: opinion.reason,
        can_be_saved: opinion.can_be_saved,
        covered: list.covered,
    }
}

struct Opinion {
    verdict: Verdict,
    rule: &'static str,
    reason: String,
    can_be_saved: bool,
}

impl Opinion {
    fn new(verdict: Verdict, rule: &'static str, reason: impl Into<String>) -> Self {
        Self { verdict, rule, reason: reason.into(), can_be_saved: false }
    }
}

fn opinion(plan: &Plan, policy: &ExecPolicy, list: &AllowList) -> Opinion {
    if policy.security == Security::Deny {
        return Opinion::new(Verdict::Deny, "tools.exec.security", "commands are switched off");
    }
    if let Some(path) = forbidden::named(plan, policy) {
        let reason = format!("it names {path}, which no command may touch");
        return Opinion::new(Verdict::Deny, "state", reason);
    }
    let opinion = by_list(policy, list);
    if policy.ask == Ask::Always && opinion.verdict == Verdict::Allow {
        return Opinion::new(Verdict::Ask, "tools.exec.ask", "every command is asked about");
    }
    let is_held = policy.confined || policy.unconfined_by_name;
    if !is_held && opinion.verdict != Verdict::Deny {
        let reason = "nothing holds it (the sandbox profile is none), so that every command is asked about, whatever \
                      tools.exec.ask says (tools.exec.host: \"gateway\" lets the allowlist decide instead)";
        return Opinion::new(Verdict::Ask, "tools.exec.host", reason);
    }
    opinion
}

/// What security, ask and the list say together.
fn by_list(policy: &ExecPolicy, list: &AllowList) -> Opinion {
    let Some(miss) = &list.miss else {
        return Opinion::new(Verdict::Allow, "allowlist", "every program is on the allowlist");
    };
    match (policy.security, policy.ask) {
        (Security::Full, Ask::Off) => {
            Opinion::new(Verdict::Allow, "tools.exec.security", "every command is allowed")
        }
        (_, Ask::Off) => Opinion::new(Verdict::Deny, "allowlist", format!("allowlist miss: {}", miss.reason)),
        (_, Ask::Always) => Opinion::new(Verdict::Ask, "tools.exec.ask", "every command is asked about"),
        (_, Ask::OnMiss) => Opinion {
            can_be_saved: miss.can_be_saved,
            ..Opinion::new(Verdict::Ask, "allowlist", miss.reason.clone())
        },
    }
}

/// What saved rules and safe filters say about every program.
struct AllowList {
    covered: Vec<Option<AllowRuleId>>,
    /// Why not everything is covered, if it is not.
    miss: Option<Miss>,
}

struct Miss {
    reason: String,
    /// Whether rules could be saved for all that is missing.
    can_be_saved: bool,
}

impl AllowList {
    fn of(plan: &Plan, policy: &ExecPolicy, allowed: &[AllowRule]) -> Self {
        let launches: Vec<_> = plan.launches().collect();
        if let Some(reason) = saved::obstacle(plan) {
            let covered = vec![None; launches.len()];
            return Self { covered, miss: Some(Miss { reason, can_be_saved: false }) };
        }
        let covered: Vec<_> = launches.iter().map(|launch| covering(launch, allowed)).collect();
        let is_safe =
            |launch: &Launch| plan.added_env().is_empty() && safe_bins::is_safe(launch, &policy.safe_bins);
        let missing =
            launches.iter().zip(&covered).filter(|(launch, rule)| rule.is_none() && !is_safe(launch));
        let missing: Vec<_> = missing.map(|(launch, _)| *launch).collect();
        let miss = missing.first().map(|first| Miss::of(first, &missing, plan));
        Self { covered, miss }
    }
}

impl Miss {
    fn of(first: &Launch, missing: &[&Launch], plan: &Plan) -> Self {
        if let Some(reason) = missing.iter().find_map(|launch| saved::launch_obstacle(launch)) {
            return Self { reason, can_be_saved: false };
        }
        let reason = format!("{} is not on the allowlist with these arguments", first.program.path);
        // A rule speaks for the whole plan, so what is a filter here must be something a rule can name too.
        let can_be_saved = plan.launches().all(|launch| saved::launch_obstacle(launch).is_none());
        Self { reason, can_be_saved }
    }
}

fn covering(launch: &Launch, allowed: &[AllowRule]) -> Option<AllowRuleId> {
    allowed.iter().find(|rule| saved::covers_launch(&rule.matches, launch)).map(|rule| rule.id)
}
