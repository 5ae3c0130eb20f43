//! What is never done, whatever any rule allows.

use super::plan::Plan;

/// A shipped rule that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destructive {
    pub rule: &'static str,
    pub reason: String,
}

/// The shipped rule that this plan breaks, if it breaks one.
pub fn destructive(_plan: &Plan) -> Option<Destructive> {
    Some(Destructive { rule: "shipped", reason: "commands are not looked at yet".to_owned() })
}
