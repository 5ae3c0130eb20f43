//! Models: whatever the vendor, an agent asks for a stream of events and reads it to its end.
//!
//! A failure of the outside world is the last event of the stream, not an error of the call.

mod call;
mod catalogue;
mod classify;
mod digest;
mod embed;
mod failure;
mod frames;
mod ledger;
mod money;
mod offline;
mod reading;
mod replay;
mod request;
mod stream;
mod thinking;
mod wire;

use std::sync::Arc;

pub use catalogue::{
    Aliases, Api, Compat, EmbeddingInfo, KnownProvider, MaxTokensField, ModelInfo, Price, ThinkingFormat,
    known, known_provider, normalize_provider, parse_ref, short_name,
};
pub use classify::{classify, is_overflow};
pub use embed::{EmbedRequest, Embedded, Purpose};
pub use failure::{Failure, FailureKind};
pub use ledger::{CallOutcome, CallRecord, Ledger};
pub use money::{ReportedUsage, format_tokens, format_usd, normalize_usage};
pub use request::{CacheRetention, Options, Request, ToolChoice, ToolSpec};
pub use stream::{BlockKind, Model, ModelEvent, ModelStream};
pub use thinking::{labels as thinking_labels, levels as thinking_levels, parse_level};
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
