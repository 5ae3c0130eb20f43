//! The run: turns a message into an answer, durable at every step.
//!
//! [`run`](run()) asks a model, runs the tools it calls, feeds the results back, and goes on until there is an answer. It reads
//! and writes through its [`Journal`](tidegate_storage::Journal) under its lease, sees tools only through its
//! [`ToolBox`], and returns an outcome. Only the engine finishes a run.
//!
//! The order to read it in: `run/mod.rs` (the loop), `run/ask.rs` (one model call), `run/work.rs` (its tools),
//! `run/resume.rs` (after a crash); then `context` (what a model is shown), `compact` (what happens when that grows too
//! long) and `text` (what people see of the stream).

pub mod compact;
pub mod context;
mod desk;
mod flush;
mod run;
#[doc(hidden)]
pub mod testing;
pub mod text;
mod texts;
mod toolbox;

pub use desk::{Afford, Desk};
pub use flush::MEMORY_TOOL;
pub use run::{
    Answer, Flush, Manual, Outcome, Parts, StepLimit, Turn, Window, calls_made, calls_of, run, step_limit,
    sum_up,
};
pub use toolbox::{ReadyCall, Recalled, ToolBox, ToolBoxError, Verdict};
