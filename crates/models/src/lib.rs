//! Models: whatever the vendor, an agent asks for a stream of events and reads it to its end.
//!
//! A failure of the outside world is the last event of the stream, not an error of the call.

mod afford;
mod aws;
mod blot;
mod call;
mod catalogue;
mod chain;
mod classify;
mod cooldown;
mod digest;
mod embed;
mod failure;
mod frames;
mod keyring;
mod ledger;
pub mod login;
mod meter;
mod money;
mod offline;
mod partial_json;
mod reading;
mod registry;
mod replay;
mod request;
mod rotation;
mod scripted;
mod standings;
mod stream;
#[doc(hidden)]
pub mod testing;
mod thinking;
mod verdict;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
pub use catalogue::{
    Aliases, Api, Catalogue, Compat, EmbeddingInfo, KnownProvider, MaxTokensField, ModelInfo, Price,
    ProviderInfo, ThinkingFormat, known, known_provider, normalize_provider, parse_ref, short_name,
};
pub use classify::{classify, is_overflow};
pub use cooldown::{Cooldowns, Standing};
pub use embed::{EmbedRequest, Embedded, Purpose};
pub use failure::{Failure, FailureKind};
pub use keyring::Environment;
pub use ledger::{CallOutcome, CallRecord, Ledger};
pub use money::{ReportedUsage, format_tokens, format_usd, normalize_usage};
pub use partial_json::partial_json;
pub use registry::{Registry, RegistryOptions};
pub use replay::{Paired, paired};
pub use request::{CacheRetention, Options, Request, ToolChoice, ToolSpec};
pub use rotation::{Candidate, CredentialKind};
pub use standings::{Forgetful, StandingKey, StandingStore};
pub use stream::{BlockKind, Model, ModelEvent, ModelStream};
pub use thinking::{labels as thinking_labels, levels as thinking_levels};
use tidegate_protocol::{AgentId, ErrorBody, ErrorCode, ModelRef, RunSpec};

/// The provider that needs no network.
pub const OFFLINE: &str = "offline";

/// Why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotSpeak {
    #[error("there is no credential for the model provider {provider:?}")]
    NoCredential { provider: String },
    #[error("there is no credential {profile:?} for the model provider {provider:?}")]
    NoSuchProfile { provider: String, profile: String },
    #[error("the stored credentials cannot be read: {0}")]
    Unreadable(String),
    #[error("{model} cannot be asked: {reason}")]
    Unusable { model: ModelRef, reason: String },
}

impl CannotSpeak {
    pub fn body(&self) -> ErrorBody {
        let code = match self {
            Self::NoCredential { .. } | Self::NoSuchProfile { .. } => ErrorCode::AuthRequired,
            Self::Unreadable(_) => ErrorCode::CredentialsUnreadable,
            Self::Unusable { .. } => ErrorCode::ModelUnavailable,
        };
        ErrorBody::new(code, self.to_string())
    }
}

/// Where models come from.
#[async_trait]
pub trait Providers: Send + Sync {
    /// Whether the first model of the chain, or one that stands in for it, could be asked now. Cheap: nobody is called.
    async fn ready(&self, spec: &RunSpec) -> Result<(), CannotSpeak>;

    /// What answers for a run: the first model of its chain, those that stand in for it behind it. Every call it makes is
    /// recorded in `ledger`.
    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak>;

    /// Turns texts into vectors: all of them, or none. Whoever only speaks has none to give.
    async fn embed(
        &self,
        _agent: &AgentId,
        model: &ModelRef,
        _inputs: &[String],
        _purpose: Purpose,
        _ledger: &Ledger,
    ) -> Result<Embedded, Failure> {
        Err(Failure::new(FailureKind::NoSuchModel, format!("{model} makes no vectors here")))
    }
}

/// The models that need nothing but this program.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn;

impl BuiltIn {
    fn check(spec: &RunSpec) -> Result<(), CannotSpeak> {
        match spec.models.first() {
            Some(model) if model.provider == OFFLINE => Ok(()),
            model => {
                let model = model.cloned().unwrap_or_else(default_model);
                Err(CannotSpeak::Unusable {
                    model,
                    reason: format!("only the {OFFLINE:?} model is built in"),
                })
            }
        }
    }
}

#[async_trait]
impl Providers for BuiltIn {
    async fn ready(&self, spec: &RunSpec) -> Result<(), CannotSpeak> {
        Self::check(spec)
    }

    fn open(
        &self,
        _agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        Self::check(spec)?;
        Ok(Arc::new(offline::Offline::new(ledger)))
    }
}

/// What `ask` uses when nothing is configured.
pub fn default_model() -> ModelRef {
    ModelRef { provider: OFFLINE.to_owned(), model: "echo".to_owned() }
}
