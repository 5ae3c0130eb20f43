//! `chat`: a conversation at the terminal.

use std::sync::Arc;

use tidegate_config::{Loaded, ProblemKind};
use tidegate_engine::{Home, Settings, Wish};
use tidegate_models::{CredentialKind, Forgetful, OFFLINE, parse_ref};
use tidegate_protocol::{ErrorCode, ModelRef, Scope, SessionKey};

use super::ask::session_name;
use super::block_on;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed, closest};
use crate::chat::{Known, Models, Opening, converse};
use crate::failure::{Failure, With as _};
use crate::output::{complain, printable};
use crate::registry::registry;
use crate::store::open_existing;
use crate::toolbox::mention_bare;
use crate::{Outcome, texts};

/// Models that are named when none is near.
const SOME: usize = 10;

pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let opening = opening(command, parsed)?;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    for warning in loaded.warnings.iter().filter(|warning| warning.kind != ProblemKind::Unused) {
        complain(&app.fill(texts::CONFIG_WARNING, &[("problem", warning)]));
    }
    let settings = Settings::new(&loaded);
    let scope = settings.scope(opening.agent.as_deref())?;
    let wish = Wish { model: opening.model.as_deref(), thinking: opening.thinking, ..Wish::default() };
    // A model that cannot be meant is told before anything begins.
    let spec = settings.asked_spec(&scope, &wish)?;
    let usual = spec.models.first().map(ToString::to_string).unwrap_or_default();
    let names = names(app, &home, &loaded);
    let key = SessionKey::named(scope.clone(), &opening.session);
    mention_bare(app, &settings, &scope, &key.to_string());
    let triggers = settings.reset_triggers().to_vec();
    mention_unlisted(app, &home, &loaded, &spec.models[0], opening.model.as_deref());
    let models: Models = Box::new(move |word| meant(&settings, &scope, word));
    block_on(async {
        let chosen = match &opening.model {
            Some(_) => None,
            None => chosen_before(&home, &loaded, &key).await?,
        };
        let model = chosen.and_then(|word| models(&word)).unwrap_or(usual);
        Box::pin(converse(app, &home, &loaded, opening, model, Known { names, models, triggers })).await
    })
}

/// Tells that a model is none of those that its provider lists: it may be a slip, and the provider will say so late.
fn mention_unlisted(app: &App, home: &Home, loaded: &Loaded, model: &ModelRef, wish: Option<&str>) {
    let registry = registry(app, home, loaded, Arc::new(Forgetful));
    let Some(provider) = registry.catalogue().provider(&model.provider).filter(|_| wish.is_some()) else {
        return;
    };
    let ids = || provider.models.iter().map(|known| known.id.as_str());
    if provider.models.is_empty() || provider.id == OFFLINE || ids().any(|id| id == model.model) {
        return;
    }
    let known: Vec<&str> = match closest(&model.model, ids()) {
        Some(near) => vec![near],
        None => ids().take(SOME).collect(),
    };
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("model", &printable(&model.model)), ("provider", &provider.id), ("known", &known.join(", "))];
    complain(&app.fill(texts::chat::UNLISTED_MODEL, &values));
}

/// The model that was chosen for the conversation, if one was.
async fn chosen_before(home: &Home, loaded: &Loaded, key: &SessionKey) -> Result<Option<String>, Failure> {
    let Some(store) = open_existing(home, &loaded.config).await? else { return Ok(None) };
    Ok(store.session_settings(key).await?.model)
}

/// The model that a person means, as it is shown. Behind `@` stands the name of a credential.
fn meant(settings: &Settings, scope: &Scope, word: &str) -> Option<String> {
    let named = word.rsplit_once('@').filter(|(model, profile)| !model.is_empty() && !profile.is_empty());
    let model = named.map_or(word, |(model, _)| model);
    let wish = Wish { model: Some(model).filter(|model| !is_usual(model)), ..Wish::default() };
    let spec = settings.asked_spec(scope, &wish).ok()?;
    spec.models.first().map(ToString::to_string)
}

/// The word for whatever is configured.
fn is_usual(word: &str) -> bool {
    word.eq_ignore_ascii_case("default")
}

fn opening(command: &'static Command, parsed: &Parsed) -> Result<Opening, Failure> {
    let level = |text: &str| {
        let invalid = || texts::INVALID_THINKING.with(&[("value", &text)]);
        tidegate_protocol::ThinkingLevel::parse_alias(text)
            .ok_or_else(|| Failure::new(ErrorCode::InvalidValue, invalid()).with_usage(command))
    };
    Ok(Opening {
        session: session_name(command, parsed)?,
        agent: parsed.value("agent").map(str::to_owned),
        model: parsed.value("model").map(str::to_owned),
        thinking: parsed.value("thinking").map(level).transpose()?,
        fresh: parsed.has("new-session"),
        json: parsed.has("json"),
    })
}

/// The models that can be asked, for completing their names: aliases first.
fn names(app: &App, home: &Home, loaded: &Loaded) -> Vec<(String, String)> {
    let registry = registry(app, home, loaded, Arc::new(Forgetful));
    let named = loaded.config.agents.defaults.models.iter().filter_map(|(model, entry)| {
        let model = parse_ref(model, OFFLINE)?;
        Some((entry.alias.clone()?, model.to_string()))
    });
    let mut models: Vec<(String, String)> = named.collect();
    for provider in registry.catalogue().providers() {
        // Credentials that cannot be read are told by the commands that are about them.
        let own = registry.candidates(&provider.id).unwrap_or_default();
        if provider.configured || own.iter().any(|candidate| candidate.kind != CredentialKind::None) {
            let known = provider.models.iter();
            models.extend(known.map(|model| (model.reference().to_string(), model.name.clone())));
        }
    }
    models
}
