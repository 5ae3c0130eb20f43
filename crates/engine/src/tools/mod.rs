//! Tools for whoever asks: a call is prepared, decided about, asked about if need be, run, and put on record.
//!
//! Every surface goes through [`Engine::invoke`](crate::Engine::invoke): there is no other way to a running tool. Questions
//! to people are durable rows; whoever answers, through whichever surface, does it through the verbs in `approvals`.

mod agent_box;
mod allow;
mod approvals;
mod browser;
mod image;
mod image_brought;
mod image_look;
mod image_source;
mod invoke;
mod loops;
mod place;
mod reuse;
mod sessions;
mod toolbox;
mod wait;

pub use allow::NotAllowed;
pub use approvals::Answering;
pub use invoke::{Invoke, Tell};
pub use place::Reserved;
pub use toolbox::{Toolbox, engine_tools_to_look_at};

pub(crate) use agent_box::AgentBox;
pub(crate) use approvals::Watchers;
pub(crate) use browser::browsers;
pub(crate) use loops::RunLoops;
pub(crate) use reuse::Reuse;
pub(crate) use sessions::cleans_up;
pub(crate) use toolbox::with_engine_tools;
