//! The WebSocket protocol over real sockets, with a client that knows frames and nothing else.

mod attachments;
mod chat;
mod client;
mod closing;
mod empty;
mod foal;
mod gate;
mod handshake;
mod keys;
mod lines;
mod methods;
mod native;
mod native_follow;
mod nodes;
mod panics;
mod replay;
mod resume;
mod slow;
mod strangers;
