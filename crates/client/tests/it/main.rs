//! The client against a gateway that misbehaves: played by the test, over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod link;
mod played;
