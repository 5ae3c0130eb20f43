//! What only Postgres does: row-level security, migrations on a shared server, collisions, lost connections.
//! The verbs themselves are held to their promises by the conformance suite of both backends.
//!
//! `TIDEGATE_TEST_POSTGRES` is the URL of a superuser of a throw-away server; without it every test here says that it
//! was skipped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod collisions;
mod connections;
mod migrations;
mod scratch;
mod security;
mod turns;
