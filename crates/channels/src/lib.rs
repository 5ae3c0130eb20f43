//! The networks, one module each: a network's protocol on one side, `Inbound` and finished parts on the other.
//!
//! A connector delivers reliably and nothing else. It never calls a model and keeps no business state: how far it read
//! is kept by the sink, what is to be sent by whoever calls it.

pub mod local;
