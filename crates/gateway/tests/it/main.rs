//! A real gateway on a free port and a socket, with a real engine on SQLite, spoken to over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod ask;
mod branches;
mod control_ui;
mod feed;
mod generated;
mod hooks;
mod house;
mod lifecycle;
mod login;
mod manage;
mod messages;
mod metrics;
mod models;
mod openai;
mod reference;
mod responses;
mod wire;
mod ws;
