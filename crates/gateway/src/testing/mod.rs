//! What recorded cases of other gateways are put to: the pure decisions of this crate, on plain values. For tests only.

mod http;
mod socket;

pub use http::*;
pub use socket::*;
