//! What the model layer promises, held against servers that play the vendors over real sockets: one list of promises for
//! every wire format, every way a call can fail, and who is asked next when it does.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod abort;
mod aimock;
mod answers;
mod asked;
mod canary;
mod cooling;
mod cuts;
mod embeddings;
mod faces;
mod fallback;
mod flood;
mod handoff;
mod heard;
mod house;
mod logins;
mod money;
mod odd_streams;
mod refusals;
mod rotation;
mod sent_back;
mod silence;
