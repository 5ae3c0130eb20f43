//! The run: turns a message into an answer, durable at every step.
//!
//! It reads and writes through its [`Journal`](tidegate_storage::Journal) under its lease and returns an outcome.
//! Only the engine finishes a run.

mod context;
mod run;

pub use run::{Outcome, Turn, run};
