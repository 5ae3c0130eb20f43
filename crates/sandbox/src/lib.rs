//! Running programs, confined or not. Whatever is started dies on a timeout, an abort, and with the gateway.
//!
//! A plan is not run by the gateway but by a *supervisor*: the same executable, started again, one for each plan. The
//! two share a socket and nothing else. The supervisor starts the programs, collects what they leave behind, and when
//! the plan has ended, when it is told to, or when the socket closes, kills everything and only then says so.
//!
//! [`Host`] is the profile `none`: programs run on the bare machine with the rights of the gateway. So they can also
//! kill their supervisor, which has the same rights. Then its direct children die with it, and the gateway kills what
//! is left of its session; a program that left the session before that survives. The confining profiles close this.
//! Two more limits come with the same rights:
//!
//! * A program can stop its supervisor (`SIGSTOP`). A stopped supervisor notices neither the end of a program nor that
//!   of the gateway. While the gateway lives it wakes the supervisor before it asks for the end, which it does at the
//!   latest when the time of the plan is over, and kills the tree itself if that does not help. When the gateway dies
//!   meanwhile, what a stopped supervisor holds lives on until somebody wakes it.
//! * A program that changes its user (set-uid, `sudo`) is not ours to kill, and loses the signal that ties it to its
//!   parent's death. It is counted among those that could not be ended, and the result says so.
//!
//! A program's file is compared with the permitted one just before it is started, by its path: somebody who can write
//! to its folder could exchange it in the instant between. Such programs are not trusted, so that each start was asked.
//!
//! All of this is exact on Linux. On other systems there is no way to find a process that left its group, so that
//! there the process groups are killed and nothing more.

mod attend;
mod backend;
mod begin;
mod container;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod hold;
mod host;
mod input;
#[cfg(target_os = "linux")]
mod local;
#[cfg(target_os = "linux")]
mod microvm;
mod order;
mod output;
mod process;
mod proxy;
mod running;
mod sandboxes;
mod script;
#[cfg(target_os = "linux")]
mod seccomp;
mod site;
mod supervise;
mod sweep;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod vessel;
mod wires;

pub use backend::Probe;
pub use container::{ContainerSettings, Engine};
pub use host::{Host, Supervisor};
#[cfg(target_os = "linux")]
pub use microvm::MicrovmSettings;
pub use proxy::{ProxyStarter, TurnedAway};
pub use sandboxes::{Report, Sandboxes};
pub use supervise::supervise;
