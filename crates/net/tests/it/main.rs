//! The client against servers on the loopback, and against addresses it must not call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod fetching;
mod leaving;
mod proxies;
mod proxying;
mod refusing;
