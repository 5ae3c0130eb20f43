//! Where a message belongs: pure decisions from facts that somebody else loaded.
//!
//! Reads no clock, no store and no file; the same facts always give the same decision.

mod route;

pub use route::route;
