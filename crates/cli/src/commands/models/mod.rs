//! `models`: which models there are, which of them answer, and whether they do.

mod choose;
mod fallbacks;
mod list;
mod status;
mod test;
mod verdict;

use std::sync::Arc;

pub(super) use choose::set;
pub(super) use fallbacks::{add, clear, list as fallbacks, remove};
pub(super) use list::list;
pub(super) use status::status;
pub(super) use test::test;
use tidegate_config::Loaded;
use tidegate_engine::{Home, Settings, SettingsError};
use tidegate_models::{Api, Catalogue, Forgetful, ModelInfo, Registry, StandingStore};
use tidegate_protocol::{ErrorCode, ModelRef};

use crate::app::{App, home_of};
use crate::arguments::{Parsed, closest};
use crate::failure::{Failure, With as _};
use crate::output::printable;
use crate::registry::registry;
use crate::texts;

/// What these commands look at.
struct Known {
    home: Home,
    loaded: Loaded,
    settings: Settings,
    registry: Registry,
}

impl Known {
    fn new(app: &App, parsed: &Parsed) -> Result<Self, Failure> {
        let home = home_of(parsed)?;
        let loaded = app.config(&home)?;
        Ok(Self::with(app, home, loaded, Arc::new(Forgetful)))
    }

    fn with(app: &App, home: Home, loaded: Loaded, standings: Arc<dyn StandingStore>) -> Self {
        let registry = registry(app, &home, &loaded, standings);
        let settings = Settings::new(&loaded);
        Self { home, loaded, settings, registry }
    }

    fn catalogue(&self) -> &Catalogue {
        self.registry.catalogue()
    }

    /// The model that is meant, or what may have been.
    fn resolve(&self, text: &str) -> Result<ModelRef, Failure> {
        if let Some(model) = self.catalogue().resolve(text) {
            return Ok(model);
        }
        let failure = match text.split_once('/') {
            Some((provider, _)) if self.catalogue().provider(provider).is_none() => {
                let known: Vec<&str> = self.catalogue().providers().map(|known| known.id.as_str()).collect();
                SettingsError::UnknownProvider { provider: printable(provider), known: known.join(", ") }
            }
            _ => SettingsError::UnknownModel { text: printable(text) },
        };
        let failure = Failure::from(failure);
        Err(match near(self.catalogue(), text) {
            Some(meant) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &meant)])),
            None => failure,
        })
    }

    /// Whether something could be shown to the provider of this model. A script of one's own wants nothing.
    fn has_credential(&self, model: &ModelRef) -> Result<bool, Failure> {
        let provider = self.catalogue().provider(&model.provider);
        let is_script = provider.is_some_and(|provider| provider.api == Api::Scripted);
        Ok(is_script || !self.registry.candidates(&model.provider)?.is_empty())
    }
}

/// A known model that somebody may have meant: one of that name at some provider, else the one that looks most like it.
fn near(catalogue: &Catalogue, text: &str) -> Option<String> {
    let text = text.trim();
    let models: Vec<&ModelInfo> = catalogue.providers().flat_map(|provider| &provider.models).collect();
    if let Some(same) = models.iter().find(|model| model.id.eq_ignore_ascii_case(text)) {
        return Some(same.reference().to_string());
    }
    let names: Vec<String> = models.iter().map(|model| model.reference().to_string()).collect();
    closest(text, names.iter().map(String::as_str)).map(str::to_owned)
}

fn not_found(message: crate::failure::Message) -> Failure {
    Failure::new(ErrorCode::NotFound, message)
}
