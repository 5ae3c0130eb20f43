//! Which models look at images for an agent, and what such a call is promised.

use tidegate_models::Catalogue;
use tidegate_protocol::{AgentId, Limits, ModelRef, RunSpec, Scope, ThinkingLevel};

use super::{Settings, SettingsError, Wish};

/// Where the models for images are named.
const KEY: &str = "agents.defaults.imageModel";

/// Why nobody can look at an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageModelError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0} reads no images")]
    Blind(ModelRef),
    #[error("none of the models in {KEY} reads images")]
    NoneConfigured,
    #[error("none of this agent's models reads images; the operator can name one that does in {KEY}")]
    None,
}

impl Settings {
    /// The call that looks at an image: the model that was asked for, else the configured ones, else those of the
    /// agent's own that can. Nothing that policy forbids, and never a long answer.
    pub(crate) fn image_spec(
        &self,
        scope: &Scope,
        wish: Option<&str>,
        max_tokens: u32,
    ) -> Result<RunSpec, ImageModelError> {
        let models = self.permitted(&scope.agent, self.image_models(&scope.agent, wish)?)?;
        let spec = self.spec(scope, &Wish::default(), models);
        let limits = Limits { max_tokens: Some(max_tokens), ..spec.limits };
        Ok(RunSpec { limits, thinking: Some(ThinkingLevel::Off), ..spec })
    }

    fn image_models(&self, agent: &AgentId, wish: Option<&str>) -> Result<Vec<ModelRef>, ImageModelError> {
        let configured = self.image_chain();
        if let Some(text) = wish {
            return self.wished_eye(agent, text, &configured);
        }
        if !configured.is_empty() {
            return seeing(&self.catalogue, configured).ok_or(ImageModelError::NoneConfigured);
        }
        let own = self.chain(agent, &Wish::default())?;
        seeing(&self.catalogue, own).ok_or(ImageModelError::None)
    }

    /// The one model that was asked for. It may be chosen like any other, and also when it is there for images only.
    fn wished_eye(
        &self,
        agent: &AgentId,
        text: &str,
        configured: &[ModelRef],
    ) -> Result<Vec<ModelRef>, ImageModelError> {
        let chosen = match self.chain(agent, &Wish { model: Some(text), ..Wish::default() }) {
            Err(SettingsError::NotListed { model }) if configured.contains(&model) => vec![model],
            chosen => chosen?,
        };
        match chosen.iter().find(|model| !sees(&self.catalogue, model)) {
            Some(blind) => Err(ImageModelError::Blind(blind.clone())),
            None => Ok(chosen),
        }
    }

    fn image_chain(&self) -> Vec<ModelRef> {
        let said = &self.config.agents.defaults.image_model;
        let names = said.primary.iter().chain(&said.fallbacks);
        names.filter_map(|name| self.catalogue.resolve(name)).collect()
    }
}

/// Those of some models that read images, if any does.
fn seeing(catalogue: &Catalogue, models: Vec<ModelRef>) -> Option<Vec<ModelRef>> {
    let left: Vec<_> = models.into_iter().filter(|model| sees(catalogue, model)).collect();
    (!left.is_empty()).then_some(left)
}

fn sees(catalogue: &Catalogue, model: &ModelRef) -> bool {
    catalogue.model(model).is_some_and(|info| info.images)
}
