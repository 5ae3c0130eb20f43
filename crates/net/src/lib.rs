//! The one HTTP client of the program: whatever leaves, leaves through here.
//!
//! A call says where its address came from ([`Origin`]), has a time to connect and a time without a byte after which it
//! is given up, and closes its socket when it is dropped. Errors never quote an address's query or a header's value.

mod client;
mod error;

pub use client::{Call, Client, Headers, Method, Origin, Reply, Timeouts};
pub use error::NetError;
