//! The delivery machine: takes a request in, gives it its turn, runs it, and lets nothing of it be torn.
//!
//! For now its callers wait in the same process (`ask`). It owns the home folder's lock, the instance's identity,
//! recovery and the transcript files; what an answer says is the agent's business.

mod ask;
mod delete;
mod error;
mod execute;
mod home;
mod identity;
mod mirror;
mod start;
mod transcript;

pub use ask::{Answer, Ask};
pub use error::EngineError;
pub use home::{Home, HomeLock};
pub use start::{Engine, Notice};
