//! What people do to conversations: give commands in them, choose for them, end what is under way, name them, fork
//! them, and take them along as files.
//!
//! What a message asks for is decided before it is accepted. A command becomes a run like any other, so it keeps its
//! place among the messages around it; only `/stop` acts at once.

mod answers;
mod branch;
mod choose;
mod context;
mod export;
mod names;
mod plan;
mod stop;

pub use branch::{Branch, NewBranch};
pub use export::{ExportFormat, export};
pub use names::{NameError, answering_session_key, session_key, session_name};

pub(crate) use plan::{Plan, Standing, Step, Writer, asks_a_model};
