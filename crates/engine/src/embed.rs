//! Texts as vectors, for programs that ask for them: the same credentials, limits and account book as every model call.

use std::sync::Arc;

use tidegate_models::{Embedded, Ledger, Purpose};
use tidegate_protocol::{ErrorBody, ErrorCode, ModelRef, Scope};

use crate::error::EngineError;
use crate::metering::Account;
use crate::settings::{Settings, SettingsError, Wish};
use crate::start::{Core, Engine};

impl Engine {
    /// Turns texts into vectors, all or none. What it used is metered, however it ended.
    pub async fn embed(
        &self,
        scope: &Scope,
        model: ModelRef,
        inputs: Vec<String>,
    ) -> Result<Embedded, EngineError> {
        let core = Arc::clone(&self.core);
        if core.closing.is_requested() {
            return Err(EngineError::Closing);
        }
        let scope = scope.clone();
        self.core.unbroken("embed", async move { core.embed(&scope, &model, &inputs).await }).await?
    }
}

impl Core {
    async fn embed(
        &self,
        scope: &Scope,
        model: &ModelRef,
        inputs: &[String],
    ) -> Result<Embedded, EngineError> {
        self.settings.permitted(&scope.agent, vec![model.clone()])?;
        let mut spec = self.settings.run_spec(scope, &Wish::default())?;
        (spec.models, spec.limits.max_tokens) = (vec![model.clone()], Some(1));
        if !self.has_room(scope, &spec, &inputs.concat(), 0).await? {
            let message = "a budget has no room for these texts; `tidegate usage` shows what is left";
            return Err(EngineError::Refused(ErrorBody::new(ErrorCode::BudgetExceeded, message)));
        }
        let ledger = Ledger::default();
        let embedded = self.models.embed(&scope.agent, model, inputs, Purpose::Stored, &ledger).await;
        let account = Account { agent: &scope.agent, session: None, purpose: "embed" };
        self.meter(None, &account, ledger.take()).await?;
        embedded.map_err(|failure| EngineError::Refused(failure.body()))
    }
}

impl Settings {
    /// The embedding model a name means: `provider/model`, or the name of one that a configured provider is known to
    /// have.
    pub fn embedding_model(&self, text: &str) -> Result<ModelRef, SettingsError> {
        let text = text.trim();
        if text.contains('/') {
            return self.catalogue().resolve(text).ok_or_else(|| self.names_nothing(text));
        }
        let has_it = |provider: &&tidegate_models::ProviderInfo| {
            provider.embeddings.iter().any(|model| model.id == text)
        };
        let mut known: Vec<_> = self.catalogue().providers().filter(has_it).collect();
        known.sort_by_key(|provider| !provider.configured);
        let provider = known.first().ok_or_else(|| SettingsError::UnknownModel { text: text.to_owned() })?;
        Ok(ModelRef { provider: provider.id.clone(), model: text.to_owned() })
    }
}
