//! The connectors from outside, each against the real thing it talks to.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod inbox;
mod outbox;
mod scene;
