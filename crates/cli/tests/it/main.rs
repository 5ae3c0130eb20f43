//! The command line from outside: real processes, temporary homes, real SQLite and Postgres. Nothing here knows more
//! than a person at a shell could find out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod approvals;
mod ask;
mod asking_tools;
mod auth;
mod bad_input;
mod browsing;
mod busy;

mod chat;
mod clock;
mod config;
mod contract;
mod damage;
mod disk;
mod egress;
mod gateway;
mod home;
mod injection;
mod kill;
mod language;
mod log;
mod mcp;
mod models;
mod postgres;
mod privacy;
mod process;
mod runs;
mod sandbox;
mod sessions;
mod status;
mod talking;
mod terminal;
mod together;
mod tools;
mod transcript;
mod upgrade;
mod usage;
mod vendor;
mod wedged;
