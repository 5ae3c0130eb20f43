//! The WebSocket protocol over real sockets, with a client that knows frames and nothing else.

mod chat;
mod client;
mod closing;
mod foal;
mod handshake;
mod methods;
mod nodes;
mod resume;
mod slow;
