//! Models: whatever the vendor, an agent asks for a stream of events and reads it to its end.
//!
//! A failure of the outside world is the last event of the stream, not an error of the call.

mod offline;
mod stream;

use std::sync::Arc;

pub use stream::{Model, ModelEvent, ModelStream, Request};
use tidegate_protocol::ModelRef;

/// The provider that needs no network.
pub const OFFLINE: &str = "offline";

/// Providers this release knows by name. What it knows it may still not be able to speak to.
pub const KNOWN_PROVIDERS: &[&str] = &[OFFLINE, "openai-codex"];

/// Why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this version cannot speak to the model provider {provider:?}; it has the {OFFLINE:?} model only")]
pub struct CannotSpeak {
    pub provider: String,
}

/// Where models come from.
pub trait Providers: Send + Sync {
    /// The model of that name, ready to be asked.
    fn open(&self, model: &ModelRef) -> Result<Arc<dyn Model>, CannotSpeak>;
}

/// The models that need nothing but this program.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn;

impl Providers for BuiltIn {
    fn open(&self, model: &ModelRef) -> Result<Arc<dyn Model>, CannotSpeak> {
        match model.provider.as_str() {
            OFFLINE => Ok(Arc::new(offline::Offline)),
            other => Err(CannotSpeak { provider: other.to_owned() }),
        }
    }
}

/// What `ask` uses when nothing is configured.
pub fn default_model() -> ModelRef {
    ModelRef { provider: OFFLINE.to_owned(), model: "echo".to_owned() }
}
