//! The WebSocket protocol over real sockets, with a client that knows frames and nothing else.

mod attachments;
mod chat;
mod client;
mod foal;
mod handshake;
mod methods;
mod nodes;
mod replay;
mod resume;
mod slow;
