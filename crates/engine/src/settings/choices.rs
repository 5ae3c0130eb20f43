//! What somebody chooses for a conversation or a message, applied to what its run is promised.

use tidegate_models::OFFLINE;
use tidegate_protocol::{AgentId, RunSpec, Scope, SessionSettings};

use super::{Settings, SettingsError, Wish};

/// The word that takes a choice of model back.
pub(crate) const USUAL_MODEL: &str = "default";

impl Settings {
    /// Whether a word names a model that this agent may be given.
    pub(crate) fn names_model(&self, agent: &AgentId, word: &str) -> bool {
        word.eq_ignore_ascii_case(USUAL_MODEL) || self.chain(agent, &wish_of(word)).is_ok()
    }

    /// A run with what a message chooses for itself.
    pub(crate) fn directed(
        &self,
        scope: &Scope,
        spec: RunSpec,
        said: &SessionSettings,
    ) -> Result<RunSpec, SettingsError> {
        let mut spec = spec;
        if let Some(name) = &said.model {
            let wish = if name.eq_ignore_ascii_case(USUAL_MODEL) { Wish::default() } else { wish_of(name) };
            spec.models = self.chain(&scope.agent, &wish)?;
            spec.profile = wish.profile.map(str::to_owned);
            if spec.thinking.is_none() {
                spec.thinking = spec.models.first().and_then(|model| self.thinking(&scope.agent, model));
            }
        }
        spec.thinking = said.thinking.or(spec.thinking);
        spec.verbose = said.verbose.unwrap_or(spec.verbose);
        Ok(spec)
    }

    /// The same with what was chosen earlier. A model that is gone since is not a reason to say nothing.
    pub(crate) fn as_chosen(&self, scope: &Scope, spec: RunSpec, chosen: &SessionSettings) -> RunSpec {
        self.directed(scope, spec.clone(), chosen).unwrap_or_else(|error| {
            tracing::warn!(%error, "the model that was chosen for a conversation cannot be used");
            let rest = SessionSettings { model: None, ..chosen.clone() };
            self.directed(scope, spec.clone(), &rest).unwrap_or(spec)
        })
    }

    /// The models somebody may choose from, as they would write them.
    pub fn choosable(&self, agent: &AgentId) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let usual = self.chain(agent, &Wish::default()).unwrap_or_default();
        let offered = self.offered().into_iter().chain(usual).filter(|model| model.provider != OFFLINE);
        for name in offered.map(|model| model.to_string()).chain([OFFLINE.to_owned()]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// `provider/model@profile`, the last part being a credential's name.
fn wish_of(name: &str) -> Wish<'_> {
    match name.rsplit_once('@') {
        Some((model, profile)) if !model.is_empty() && !profile.is_empty() => {
            Wish { model: Some(model), profile: Some(profile), ..Wish::default() }
        }
        _ => Wish { model: Some(name), ..Wish::default() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::{ThinkingLevel, Verbose};

    use super::*;

    fn settings() -> Settings {
        let config = json!({
            "agents": {"defaults": {
                "model": {"primary": "anthropic/first", "fallbacks": ["openai/second"]},
                "models": {"anthropic/first": {}, "openai/third": {"alias": "fast"}},
            }},
        });
        let config: tidegate_config::schema::Config = serde_json::from_value(config).unwrap();
        let catalogue = tidegate_models::Catalogue::new(&config, std::path::Path::new(""));
        Settings { config: Box::new(config), catalogue, ..Settings::default() }
    }

    fn scope() -> Scope {
        Scope::personal("main".parse().unwrap())
    }

    fn model(name: &str) -> SessionSettings {
        SessionSettings { model: Some(name.to_owned()), ..SessionSettings::default() }
    }

    fn names(spec: &RunSpec) -> Vec<String> {
        spec.models.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_model_is_one_that_may_be_chosen_or_the_usual_one() {
        let (settings, agent) = (settings(), scope().agent);
        for word in ["fast", "openai/third", "openai/third@work", "openai/second", "Default"] {
            assert!(settings.names_model(&agent, word), "{word}");
        }
        for word in ["", "somebody", "openai/unlisted", "nowhere/x"] {
            assert!(!settings.names_model(&agent, word), "{word}");
        }
        assert_eq!(
            settings.choosable(&agent),
            ["anthropic/first", "openai/third", "openai/second", "offline"]
        );
    }

    #[test]
    fn without_a_list_every_model_of_a_configured_provider_can_be_chosen() {
        let config = json!({
            "agents": {"defaults": {"model": {"primary": "lab/one"}}},
            "models": {"providers": {"lab": {
                "baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "models": [{"id": "one"}, {"id": "two"}],
            }}},
        });
        let config: tidegate_config::schema::Config = serde_json::from_value(config).unwrap();
        let catalogue = tidegate_models::Catalogue::new(&config, std::path::Path::new(""));
        let settings = Settings { config: Box::new(config), catalogue, ..Settings::default() };
        assert_eq!(settings.choosable(&scope().agent), ["lab/one", "lab/two", "offline"]);
    }

    #[test]
    fn what_is_said_changes_the_run_and_the_rest_stays() {
        let (settings, scope) = (settings(), scope());
        let usual = settings.inbound_spec(&scope).unwrap();
        let said = SessionSettings {
            model: Some("fast@work".to_owned()),
            thinking: Some(ThinkingLevel::High),
            verbose: Some(Verbose::On),
        };
        let spec = settings.directed(&scope, usual.clone(), &said).unwrap();
        assert_eq!(names(&spec), ["openai/third"]);
        assert_eq!((spec.profile.as_deref(), spec.thinking), (Some("work"), Some(ThinkingLevel::High)));
        assert_eq!((spec.verbose, spec.limits), (Verbose::On, usual.limits));
        let back = settings.directed(&scope, spec, &model("default")).unwrap();
        assert_eq!((names(&back), back.profile), (names(&usual), None));
        assert_eq!(back.thinking, Some(ThinkingLevel::High), "said for thinking, not for the model");
    }

    #[test]
    fn a_chosen_model_that_is_gone_leaves_the_usual_ones_and_the_other_choices() {
        let (settings, scope) = (settings(), scope());
        let usual = settings.inbound_spec(&scope).unwrap();
        let chosen = SessionSettings { thinking: Some(ThinkingLevel::Low), ..model("gone/away") };
        let spec = settings.as_chosen(&scope, usual.clone(), &chosen);
        assert_eq!((names(&spec), spec.thinking), (names(&usual), Some(ThinkingLevel::Low)));
    }
}
