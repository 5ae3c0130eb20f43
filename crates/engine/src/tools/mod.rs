//! Tools for whoever asks: a call is prepared, decided about, asked about if need be, run, and put on record.
//!
//! Every surface goes through [`Engine::invoke`](crate::Engine::invoke): there is no other way to a running tool. Questions
//! to people are durable rows; whoever answers, through whichever surface, does it through the verbs in `approvals`.

mod approvals;
mod invoke;
mod loops;
mod place;
mod toolbox;
mod wait;

pub use approvals::{Answering, Attendance};
pub use invoke::Invoke;
pub use toolbox::Toolbox;

pub(crate) use approvals::Watchers;
pub(crate) use loops::RunLoops;
