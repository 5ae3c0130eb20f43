//! Runs with tools, killed everywhere, on both databases.
//!
//! `tidegate-testkit host` is the real engine with a model that plays a script. What it did is in files: the marks that
//! a tool left, the notes, what the networks show. Whatever died, they must agree with the log; see [`check`].

mod check;
mod kill;
mod script;
mod story;
