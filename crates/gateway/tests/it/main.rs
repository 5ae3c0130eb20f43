//! A real gateway on a free port and a socket, with a real engine on SQLite, spoken to over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod ask;
mod branches;
mod feed;
mod house;
mod lifecycle;
mod login;
mod messages;
mod models;
mod openai;
mod reference;
mod wire;
mod ws;
