//! Secret values: text that a program may use and must never print.
//!
//! This crate owns the type that carries a secret from the place where it was read to the place where it is
//! sent. It never formats, logs or serializes what it holds: every such path answers [`REDACTED`].

mod secret;

pub use secret::{REDACTED, SENSITIVE_MARK, Secret};
