//! Commands: read with bash's own grammar, understood or not, and never guessed.
//!
//! A script that consists of plain commands joined by `&&`, `||`, `;` and `|` becomes a [`Plan`] of programs with their
//! arguments, and runs as that, without a shell. Anything else becomes a plan with one program, the shell, and always
//! asks. Rules look at the plan, the person who approves is shown the plan, and the sandbox runs the plan.

mod destructive;
mod environment;
mod forbidden;
mod judge;
mod paths;
mod plan;
mod programs;
mod read;
mod safe_bins;
mod saved;

use serde::{Deserialize, Serialize};

pub use destructive::{Destructive, destructive};
pub use judge::{ExecVerdict, judge};
pub use plan::{FileIdentity, Join, Launch, Lookup, Opaque, Plan, PlanError, PlanPlace, Program, Step};
pub(crate) use programs::may_hold_commands;
pub use saved::{covers, suggestion};

/// How commands are decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecPolicy {
    pub security: Security,
    pub ask: Ask,
    pub fallback: AskFallback,
    /// Whether the sandbox holds what it starts. Without that every command asks, whatever the rest says, unless
    /// `unconfined_by_name`.
    pub confined: bool,
    /// The operator asked by name for commands on the bare machine (`tools.exec.host: "gateway"`).
    pub unconfined_by_name: bool,
    /// Filters that need no approval as long as they only read their input.
    pub safe_bins: Vec<String>,
    /// Absolute paths no command may name: our own state.
    pub forbidden: Vec<String>,
    /// Folders inside a forbidden one that commands may name all the same: the workspace.
    pub roots: Vec<String>,
}

impl Default for ExecPolicy {
    fn default() -> Self {
        Self {
            security: Security::Allowlist,
            ask: Ask::OnMiss,
            fallback: AskFallback::Deny,
            confined: false,
            unconfined_by_name: false,
            safe_bins: Vec::new(),
            forbidden: Vec::new(),
            roots: Vec::new(),
        }
    }
}

/// Which commands may run at all. Ordered: an earlier one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    Deny,
    Allowlist,
    Full,
}

/// When a person is asked. Ordered: a later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    Off,
    OnMiss,
    Always,
}

/// What becomes of a question that nobody answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskFallback {
    Deny,
    /// It runs if the allowlist covers it.
    Allowlist,
}
