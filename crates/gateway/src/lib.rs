//! The server of a gateway, HTTP and WebSocket on one port: who may enter, what they may ask, and how answers stream.
//!
//! One router serves the port and the control socket. It proves who calls, translates between the wire and the engine's
//! verbs, and keeps no state of its own but login codes and paired devices. It never talks to a model or a network, and never acknowledges
//! a request before the engine says that it is durable.

mod access;
mod answer;
mod api;
mod body;
mod checks;
mod cookie;
mod dialect;
mod error;
mod gate;
mod hooks;
mod login;
mod methods;
mod names;
mod openai;
mod openapi;
mod page;
mod presence;
mod query;
mod routes;
mod server;
#[doc(hidden)]
pub mod testing;
mod texts;
mod token;
mod ws;

pub use access::Access;
pub use cookie::COOKIE;
pub use error::ServeError;
pub use gate::{Gateway, Options, ServerOptions, check_port, control, serve};
pub use methods::{
    METHODS, Method, Repeat, json_schema as methods_schema, native_typescript,
    reference_markdown as methods_reference, typescript as methods_typescript,
};
pub use openapi::openapi;
pub use routes::{ROUTES, Route};
pub use server::Server;
pub use token::LocalToken;
pub use ws::peer::Dialect;
pub use ws::scope::Need;
