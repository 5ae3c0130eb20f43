//! What tests share and no release contains: throw-away stores, ready-made requests, whole-store snapshots, and the
//! scripts that `tidegate-testkit` plays until a fault kills it.
//!
//! Used from `tests/` only. A test that cannot be set up has failed, so everything here panics instead of returning
//! errors that each test would unwrap.
#![allow(clippy::expect_used, reason = "a test that cannot be set up has failed")]

pub mod crash;
pub mod guarded_mcp;
pub mod host;
pub mod login_server;
pub mod mcp_fixture;
pub mod mcp_server;
pub mod model_server;
pub mod network;
pub mod paced;
pub mod requests;
pub mod script;
pub mod search_server;
pub mod skip;
pub mod snapshot;
pub mod stores;
pub mod vectors;
pub mod web_server;

/// For tests of what the client talks to.
pub use tidegate_client as client;
