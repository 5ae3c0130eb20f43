//! Tools through their public surface.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod bare;
mod browser;
mod browser_egress;
mod browser_scene;
mod custom;
mod exec;
mod files;
mod gated;
mod gated_paths;
mod gated_scene;
mod loops;
mod process;
mod stage;
mod terminal;
mod web;
