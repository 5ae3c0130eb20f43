//! What is known about providers and their models: data, extended and overridden by the configuration.

mod compat;
mod info;
mod known;
mod merged;
mod reference;

pub use compat::{Compat, MaxTokensField, ThinkingFormat};
pub use info::{Api, ModelInfo, Price};
pub use known::{EmbeddingInfo, KnownProvider, known, known_provider};
pub use merged::{Catalogue, ProviderInfo};
pub use reference::{Aliases, normalize_provider, parse_ref, short_name};
