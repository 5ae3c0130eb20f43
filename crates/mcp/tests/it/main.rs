//! Servers that behave and servers that do not, as real programs under a real supervisor, and over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod faults;
mod held;
mod npm;
mod scene;
mod stdio;
