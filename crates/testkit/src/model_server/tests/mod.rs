//! The server, read byte by byte: what each format looks like on the wire, that faults happen as told, and that nothing
//! of a request is lost.

mod client;
mod faults;
mod formats;
mod reading;
mod records;
