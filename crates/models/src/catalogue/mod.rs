//! What is known about providers and their models: data, extended and overridden by the configuration.

mod compat;
mod info;

pub use compat::{Compat, MaxTokensField, ThinkingFormat};
pub use info::{Api, ModelInfo, Price};
