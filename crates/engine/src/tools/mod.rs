//! Tools for whoever asks: a call is prepared, decided about, asked about if need be, run, and put on record.
//!
//! Every surface goes through [`Engine::invoke`](crate::Engine::invoke): there is no other way to a running tool. Questions
//! to people are durable rows; whoever answers, through whichever surface, does it through the verbs in `approvals`.

mod allow;
mod approvals;
mod image;
mod image_look;
mod image_source;
mod invoke;
mod loops;
mod place;
mod toolbox;
mod wait;

pub use allow::NotAllowed;
pub use approvals::Answering;
pub use image::image_tool_to_look_at;
pub use invoke::Invoke;
pub use place::Reserved;
pub use toolbox::Toolbox;

pub(crate) use approvals::Watchers;
pub(crate) use image::with_image_tool;
pub(crate) use loops::RunLoops;
