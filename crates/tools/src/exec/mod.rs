//! Commands: `exec` starts them, `process` looks after those that run on.
//!
//! What runs is the plan that the gate permitted, started by the sandbox; here it is only asked for, waited for and
//! listened to. Output is cleaned and bounded as it comes.

mod buffer;
mod clean;
mod collect;
mod command;
pub(crate) mod folder;
mod input;
pub(crate) mod keys;
mod lookup;
mod names;
mod outcome;
mod process;
mod processes;
mod started;

#[cfg(test)]
pub(crate) mod stage;

pub use command::{ExecSettings, ExecTool};
pub use lookup::Disk;
pub use process::ProcessTool;
pub use processes::{ProcessLimits, Processes};

pub(crate) use command::is_variable;
pub(crate) use outcome::{plan_failure, result_of};
pub(crate) use processes::Order;
pub(crate) use started::Owner;
