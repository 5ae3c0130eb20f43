//! The config file of Tidegate: its keys, and everything that happens between the file and the typed config.
//!
//! [`ConfigFile`] loads, edits and remembers `config.json5`; [`Config`] is what it says. Files of the home, time and
//! environment are given by the caller. Other crates do not read the file: they have settings types of their own,
//! which the composition root fills from [`Config`].

mod disk;
mod document;
mod edit;
mod env;
mod error;
mod file;
mod format;
mod include;
mod known;
mod load;
mod patch;
mod path;
mod problem;
mod redact;
mod reference;
mod revision;
pub mod schema;
mod shape;
mod substitute;
#[doc(hidden)]
pub mod testing;
mod validate;
mod value;
#[cfg(test)]
mod vectors;

pub use edit::Change;
pub use env::Env;
pub use error::{EditError, LoadError, StoreError};
pub use file::{ConfigFile, Edited, Reveal, Secrets};
pub use format::duration_ms;
pub use load::{Loaded, Origin};
pub use patch::merged;
pub use path::{KeyPath, PathError};
pub use problem::{Problem, ProblemKind, code};
pub use reference::reference_markdown;
pub use revision::Revision;
pub use schema::Config;
pub use shape::json_schema;
pub use value::{ValueError, parse_value};

/// Reads a text as a config file is read, without includes, variables or a check.
pub fn parse_document(text: &str) -> Result<serde_json::Value, Vec<Problem>> {
    document::parse(text)
}

/// The key that was probably meant by a path that no key has.
pub fn suggest(path: &KeyPath) -> Option<String> {
    validate::for_path(path)
}
