//! The WebSocket protocol over real sockets, with a client that knows frames and nothing else.

mod chat;
mod client;
mod foal;
mod handshake;
mod methods;
mod native;
mod native_follow;
mod nodes;
mod resume;
mod slow;
