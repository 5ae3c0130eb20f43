//! Servers whose tools agents can use.

mod connect;
mod http;
mod listener;
mod names;
mod result;
mod server;
mod servers;
mod shown;
mod spec;
mod stdio;
mod tool;

pub use connect::{LoginWanted, Means};
pub use names::LeftOut;
pub use servers::{Listing, Servers, Standing, Status};
pub use spec::{AddressSpec, ProgramSpec, Reach, ServerSpec, ToolFilter};
