//! The client of a running gateway, over its control socket or its port.
//!
//! Every call has a deadline, and an error says what the caller can do about it: nobody listens, the gateway closes,
//! it refused, or it is not a gateway. A [`Link`] is a connection that is kept and tells what happens.

mod ask;
mod call;
mod connect;
mod error;
mod invoke;
mod lines;
mod link;
mod mcp;

pub use ask::AskStream;
pub use connect::{Client, Token};
pub use error::ClientError;
pub use invoke::ToolStream;
pub use link::{Following, Heard, Link, LinkEvent};
pub use mcp::McpStream;
