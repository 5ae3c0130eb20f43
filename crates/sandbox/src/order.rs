//! What the gateway and a supervisor say to each other, a line of JSON each.
//!
//! The gateway sends one byte that carries the three standard streams, then the [`Order`]. After that a byte [`KILL`]
//! asks for the end, and the end of the socket demands it. The supervisor answers with [`Report`]s.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_policy::exec::{Plan, Step};
use tidegate_policy::{Exit, Refusal, Resource, RunError};

use crate::hold::Hold;

/// Asks the supervisor to end everything, with a moment for the programs to clean up.
pub(crate) const KILL: u8 = b'k';

/// Asks the programs to end, however long that takes them.
pub(crate) const ASK: u8 = b't';

/// Everything a supervisor has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) steps: Vec<Step>,
    pub(crate) cwd: String,
    pub(crate) env: BTreeMap<String, String>,
    /// Whether the output is a terminal that the programs are to have as theirs.
    pub(crate) terminal: bool,
    pub(crate) hold: Hold,
    /// Whether somebody wants to know what the programs are refused.
    pub(crate) watch: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The first programs are running.
    Started,
    /// A program wanted something and did not get it.
    Refused(Refusal),
    /// The plan ended and nothing of it is left.
    Ended(Ending),
}

/// How a plan ended, as the supervisor saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
    Killed,
    Limit { what: Resource, limit: u64 },
    Failed(Failure),
}

/// [`RunError`] on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    Changed { path: String },
    Start { path: String, cause: String },
    Folder { path: String, cause: String },
    Supervisor(String),
}

impl Order {
    pub(crate) fn new(plan: &Plan, terminal: bool, hold: Hold) -> Self {
        Self {
            steps: plan.steps().to_vec(),
            cwd: plan.cwd().to_owned(),
            env: plan.env().clone(),
            terminal,
            hold,
            watch: false,
        }
    }
}

impl Ending {
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }
}

impl From<Ending> for Exit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Code(code) => Self::Code(code),
            Ending::Signal(signal) => Self::Signal(signal),
            Ending::Killed => Self::Killed,
            Ending::Limit { what, limit } => Self::Limit { what, limit },
            Ending::Failed(failure) => Self::Failed(failure.into()),
        }
    }
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Changed { path } => Self::Changed { path },
            Failure::Start { path, cause } => Self::Start { path, cause },
            Failure::Folder { path, cause } => Self::Folder { path, cause },
            Failure::Supervisor(cause) => Self::Supervisor(cause),
        }
    }
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
