//! Starting programs, as the sandbox offers it. It takes nothing but what the gate permitted.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::gate::PermittedPlan;

/// Starts permitted plans. Whatever it starts dies with it.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Whether what it starts is held inside its folder and limits. Without that every command asks.
    fn confines(&self) -> bool;

    /// Starts a plan. Output goes to `sink` as it comes.
    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: std::sync::Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError>;
}

/// How a plan is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// A terminal for the programs; pipes without it.
    pub pty: Option<PtySize>,
    /// Whether somebody may write to it; else it reads the end of its input at once.
    pub input: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtySize {
    pub columns: u16,
    pub rows: u16,
}

impl Default for PtySize {
    fn default() -> Self {
        Self { columns: 120, rows: 30 }
    }
}

/// Which of its outputs a program wrote to. A terminal has only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Takes output. It must not block for long, and it keeps what it wants: the rest is gone.
pub trait Sink: Send + Sync {
    fn write(&self, stream: Stream, bytes: &[u8]);

    /// Whether it wants to know what programs are refused. To find that out makes them many times slower.
    fn wants_refusals(&self) -> bool {
        false
    }

    /// Takes something that a program was refused.
    fn refused(&self, _refusal: &Refusal) {}

    /// Takes a host that programs wanted to reach through the gateway's proxy and did not, and why. Each host comes once,
    /// and there is an end to them. Nobody has to ask for it.
    fn turned_away(&self, _host: &str, _why: &str) {}
}

/// Something that a program in a sandbox wanted and did not get.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The system call.
    pub call: String,
    pub what: Refused,
    /// The error that the program got, as the system numbers them.
    pub error: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refused {
    Path {
        path: String,
        write: bool,
    },
    /// A place in a network, a socket of this machine, or a whole kind of them.
    Address(String),
    /// The call itself.
    Call,
}

/// A plan under way. Dropping it kills everything that it started.
#[async_trait]
pub trait Running: Send + Sync {
    /// The process id of the supervisor, for people who look at the machine.
    fn pid(&self) -> u32;

    /// How it ended: the whole plan and everything it started is gone, and all its output was handed over.
    async fn wait(&self) -> Exit;

    async fn write(&self, bytes: &[u8]) -> Result<(), RunError>;

    /// Ends its input.
    async fn close_input(&self) -> Result<(), RunError>;

    /// Asks everything it started to end by itself (`SIGTERM`); whoever does not goes on. Kills where there is no way to
    /// ask.
    fn ask_to_end(&self) {
        self.kill();
    }

    /// Kills everything it started; `wait` returns soon after.
    fn kill(&self);
}

/// How a plan ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The exit status of the last program that ran.
    Code(i32),
    Signal(i32),
    /// Killed because somebody asked for it.
    Killed,
    /// Killed because its programs together used more than they may.
    Limit {
        what: Resource,
        /// Bytes, or processes.
        limit: u64,
    },
    /// It did not start, or its supervisor failed.
    Failed(RunError),
}

/// What programs can use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Memory,
    Processes,
    Disk,
}

impl Resource {
    /// In words, with as much of it as there may be: `512 processes`, `2048 MB of memory`.
    pub fn amount(self, limit: u64) -> String {
        let megabytes = limit >> 20;
        match self {
            Self::Memory => format!("{megabytes} MB of memory"),
            Self::Processes => format!("{limit} processes"),
            Self::Disk => format!("{megabytes} MB on disks"),
        }
    }
}

impl Exit {
    /// For people, with the key that sets the limits of this program, should it have come to one.
    pub fn told(&self, key: &str) -> String {
        match self {
            Self::Limit { .. } => format!("{self} ({key})"),
            _ => self.to_string(),
        }
    }
}

/// For people, wherever the end of a program is told.
impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "it was ended by signal {signal}"),
            Self::Killed => f.write_str("it was killed"),
            Self::Limit { what, limit } => {
                let amount = what.amount(*limit);
                write!(f, "it was killed because its programs used more than {amount} together")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The file at this path is not the one that was permitted.
    #[error("{path} is no longer the file that was permitted")]
    Changed { path: String },
    #[error("{path} cannot be started: {cause}")]
    Start { path: String, cause: String },
    #[error("the working folder {path} cannot be entered: {cause}")]
    Folder { path: String, cause: String },
    /// Nothing here can hold programs as they have to be held.
    #[error("the sandbox profile {profile} cannot be used here: {why}")]
    Unavailable { profile: &'static str, why: String },
    #[error("it has ended")]
    Ended,
    #[error("the supervisor failed: {0}")]
    Supervisor(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_told_with_a_limit_and_with_nothing_else() {
        let limit = Exit::Limit { what: Resource::Processes, limit: 4 };
        assert_eq!(
            limit.told("its.limits"),
            "it was killed because its programs used more than 4 processes together (its.limits)"
        );
        assert_eq!(Exit::Code(1).told("its.limits"), "it ended with exit code 1");
    }
}
