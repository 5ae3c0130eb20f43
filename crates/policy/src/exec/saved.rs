//! Saved rules: what one covers, and what `allow-always` would save.

use super::plan::Plan;
use crate::approval::AllowMatch;

/// Whether one saved rule covers every program of a plan.
pub fn covers(_matches: &AllowMatch, _plan: &Plan) -> bool {
    false
}

/// Exactly the rule that `allow-always` saves for a plan; absent when it may not be saved. With `prefix`, only so many
/// arguments of each program must be the same and more may follow.
pub fn suggestion(_plan: &Plan, _prefix: Option<u32>) -> Option<AllowMatch> {
    None
}
