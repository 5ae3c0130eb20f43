//! Where a message belongs and what it asks for: pure decisions from facts that somebody else loaded.
//!
//! Reads no clock, no store and no file; the same facts always give the same decision.

mod command;
pub mod manual;
mod reset;
mod route;
mod texts;
pub mod upstream_key;

pub use command::{
    COMMANDS, Command, CommandInfo, Line, Setting, Slip, Vocabulary, is_abort_word, literal, parse_line, slip,
};
pub use reset::{Conversation, ResetMode, ResetPolicy, ResetRule, ResetRules};
pub use route::route;
pub use texts::Help;
