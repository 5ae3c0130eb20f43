//! The exec analysis as the pipeline asks for it.
//!
//! This stands in for `exec::{judge, destructive}` and `exec::programs::may_hold_commands` and has their signatures: where
//! those exist, this file goes and `pipeline.rs` and `condition.rs` use them. It knows the outline only, and asks or denies where it does not know.

use tidegate_protocol::AllowRuleId;

use super::Verdict;
use crate::approval::{AllowMatch, AllowRule};
use crate::exec::{Ask, ExecPolicy, Launch, Plan, Security};

pub(super) struct Destructive {
    pub(super) rule: &'static str,
    pub(super) reason: String,
}

pub(super) fn destructive(plan: &Plan) -> Option<Destructive> {
    let removes_everything = |launch: &Launch| {
        let words: Vec<&str> = launch.argv.iter().map(String::as_str).collect();
        words == ["rm", "-rf", "/"]
    };
    plan.launches()
        .any(removes_everything)
        .then(|| Destructive { rule: "remove-root", reason: "it removes the whole file system".to_owned() })
}

/// Whether the arguments of a command can hold another command.
pub(super) fn may_hold_commands(argv: &[String]) -> bool {
    let name = argv.first().and_then(|program| program.rsplit('/').next());
    matches!(name, Some("env" | "sudo" | "sh" | "bash" | "xargs" | "nice" | "timeout" | "nohup"))
}

pub(super) struct ExecVerdict {
    pub(super) verdict: Verdict,
    pub(super) rule: String,
    pub(super) reason: String,
    pub(super) can_be_saved: bool,
    /// For each program in order, the saved rule that covers it, if one does.
    pub(super) covered: Vec<Option<AllowRuleId>>,
}

pub(super) fn judge(plan: &Plan, policy: &ExecPolicy, allowed: &[AllowRule]) -> ExecVerdict {
    let covered: Vec<_> = plan.launches().map(|launch| covering(launch, allowed)).collect();
    let understood = plan.opaque().is_none();
    let all_covered = understood && covered.iter().all(Option::is_some);
    let held = policy.confined || policy.unconfined_by_name;
    let (verdict, rule, reason) = if policy.security == Security::Deny {
        (Verdict::Deny, "tools.exec.security", "commands are denied")
    } else if policy.ask == Ask::Always {
        (Verdict::Ask, "tools.exec.ask", "every command asks")
    } else if !held {
        (Verdict::Ask, "tools.exec.host", "commands are not confined")
    } else if all_covered || policy.security == Security::Full && policy.ask == Ask::Off {
        (Verdict::Allow, "tools.exec.security", "commands of this kind run")
    } else if policy.ask == Ask::Off {
        (Verdict::Deny, "tools.exec.security", "the allowlist does not cover it")
    } else {
        (Verdict::Ask, "tools.exec.ask", "the allowlist does not cover it")
    };
    let can_be_saved = verdict == Verdict::Ask && held && understood && policy.ask == Ask::OnMiss;
    ExecVerdict { verdict, rule: rule.to_owned(), reason: reason.to_owned(), can_be_saved, covered }
}

fn covering(launch: &Launch, allowed: &[AllowRule]) -> Option<AllowRuleId> {
    let covers = |rule: &&AllowRule| {
        matches!(&rule.matches, AllowMatch::Commands(commands) if commands.iter().any(|command| {
            launch.program.trusted
                && command.program == launch.program.path
                && launch.argv.get(1..) == Some(&command.args)
        }))
    };
    allowed.iter().find(covers).map(|rule| rule.id)
}
