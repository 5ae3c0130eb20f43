//! Who may do what. Pure: decisions from facts that were loaded elsewhere, no I/O and no clock.
//!
//! For now it holds the principal; roles, tool rules and approvals join it with the code that needs them.

mod principal;

pub use principal::Principal;
