//! x
#![allow(dead_code, unused)]
mod document;
mod env;
mod include;
mod path;
mod problem;
mod substitute;
mod value;
pub use problem::*; pub use path::*; pub use value::*; pub use env::*;
