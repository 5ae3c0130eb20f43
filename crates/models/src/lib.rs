//! Models: whatever the vendor, an agent asks for a stream of events and reads it to its end.
//!
//! A failure of the outside world is the last event of the stream, not an error of the call.

mod call;
mod catalogue;
mod classify;
mod failure;
mod frames;
mod ledger;
pub mod login;
mod offline;
mod reading;
mod replay;
mod request;
mod stream;
mod thinking;
mod wire;

use std::sync::Arc;

pub use catalogue::{Api, Compat, MaxTokensField, ModelInfo, Price, ThinkingFormat};
pub use classify::{classify, is_overflow};
pub use failure::{Failure, FailureKind};
pub use ledger::{CallOutcome, CallRecord, Ledger};
pub use request::{CacheRetention, Options, Request, ToolChoice, ToolSpec};
pub use stream::{BlockKind, Model, ModelEvent, ModelStream};
use tidegate_protocol::{AgentId, ModelRef, RunSpec};

/// The provider that needs no network.
pub const OFFLINE: &str = "offline";

/// Why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {reason}")]
pub struct CannotSpeak {
    pub provider: String,
    pub reason: String,
}

/// Where models come from.
pub trait Providers: Send + Sync {
    /// What answers for a run: the first model of its chain, those that stand in for it behind it. Every call it makes is
    /// recorded in `ledger`.
    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak>;
}

/// The models that need nothing but this program.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn;

impl Providers for BuiltIn {
    fn open(
        &self,
        _agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        match spec.models.first() {
            Some(model) if model.provider == OFFLINE => Ok(Arc::new(offline::Offline::new(ledger))),
            other => Err(CannotSpeak {
                provider: other.map(|model| model.provider.clone()).unwrap_or_default(),
                reason: format!("only the {OFFLINE:?} model is built in"),
            }),
        }
    }
}

/// What `ask` uses when nothing is configured.
pub fn default_model() -> ModelRef {
    ModelRef { provider: OFFLINE.to_owned(), model: "echo".to_owned() }
}
