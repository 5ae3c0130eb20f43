//! What somebody chose for a conversation, or for one message of it.

use tidegate_policy::Principal;
use tidegate_protocol::{RunSpec, SessionKey, SessionSettings};
use tidegate_storage::{Idempotency, RunLookup, StoreError};

use super::plan::Writer;
use crate::error::EngineError;
use crate::settings::{USUAL_MODEL, Wish};
use crate::start::{Core, Engine};

impl Engine {
    /// What a run of this conversation is promised: what the caller wishes, then what was chosen for the conversation,
    /// then what is configured.
    pub async fn asked_spec(&self, key: &SessionKey, wish: &Wish<'_>) -> Result<RunSpec, EngineError> {
        let spec = self.core.settings.asked_spec(&key.scope, wish)?;
        let mut chosen = self.core.store.session_settings(key).await?;
        if wish.model.is_some() || wish.provider.is_some() || wish.profile.is_some() {
            chosen.model = None;
        }
        if wish.thinking.is_some() {
            chosen.thinking = None;
        }
        Ok(self.core.settings.as_chosen(&key.scope, spec, &chosen))
    }

    /// What was chosen for a conversation.
    pub async fn session_settings(&self, key: &SessionKey) -> Result<SessionSettings, EngineError> {
        Ok(self.core.store.session_settings(key).await?)
    }

    /// Chooses for a conversation, in place of all that was chosen before.
    pub async fn set_session_settings(
        &self,
        principal: &Principal,
        key: &SessionKey,
        chosen: SessionSettings,
    ) -> Result<(), EngineError> {
        let core = &self.core;
        core.store.set_session_settings(principal, key, chosen, core.clock.now_ms()).await?;
        core.unsealed.notify_one();
        Ok(())
    }
}

impl Core {
    /// The same for a message that came from a network.
    pub(crate) async fn inbound_spec(&self, key: &SessionKey) -> Result<RunSpec, EngineError> {
        let spec = self.settings.inbound_spec(&key.scope)?;
        let chosen = self.store.session_settings(key).await?;
        Ok(self.settings.as_chosen(&key.scope, spec, &chosen))
    }

    /// Whether the message is one that was accepted already and is sent again.
    pub(super) async fn came_before(&self, writer: Writer<'_>) -> Result<bool, StoreError> {
        let Some(name) = writer.message.filter(|_| !writer.again) else { return Ok(writer.again) };
        let now = self.clock.now_ms();
        let lookup = RunLookup::Idempotency { key: Idempotency::new(name, &[], now).key, now };
        Ok(self.store.run(&self.tenant, &lookup).await?.is_some())
    }

    /// Chooses for the conversation; what is not said stays as it was. Answers what holds then.
    pub(super) async fn choose(
        &self,
        principal: &Principal,
        key: &SessionKey,
        said: &SessionSettings,
    ) -> Result<SessionSettings, StoreError> {
        let mut chosen = over(said, &self.store.session_settings(key).await?);
        chosen.model.take_if(|model| model.eq_ignore_ascii_case(USUAL_MODEL));
        self.store.set_session_settings(principal, key, chosen.clone(), self.clock.now_ms()).await?;
        self.unsealed.notify_one();
        Ok(chosen)
    }
}

/// What is said, and what was said before where nothing is.
fn over(said: &SessionSettings, before: &SessionSettings) -> SessionSettings {
    SessionSettings {
        model: said.model.clone().or_else(|| before.model.clone()),
        thinking: said.thinking.or(before.thinking),
        verbose: said.verbose.or(before.verbose),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{ThinkingLevel, Verbose};

    use super::*;

    fn model(name: &str) -> SessionSettings {
        SessionSettings { model: Some(name.to_owned()), ..SessionSettings::default() }
    }

    #[test]
    fn a_later_word_holds_and_an_earlier_one_where_nothing_is_said() {
        let before = SessionSettings { verbose: Some(Verbose::Full), ..model("a/b") };
        let said = SessionSettings { thinking: Some(ThinkingLevel::Off), ..model("c/d") };
        let holds = SessionSettings { verbose: Some(Verbose::Full), ..said.clone() };
        assert_eq!(over(&said, &before), holds);
    }
}
