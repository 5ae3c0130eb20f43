//! `auth login`: which way leads to a credential of this provider.

use tidegate_models::{Api, Catalogue, ProviderInfo};
use tidegate_protocol::ErrorCode;

use super::{account, key};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed, closest};
use crate::failure::{Failure, With as _};
use crate::output::printable;
use crate::registry::registry;
use crate::{Outcome, texts};

/// No provider's name is as long; a key is.
const LONGEST_NAME: usize = 32;

pub(in crate::commands) fn login(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let Some(wanted) = parsed.arguments.first() else {
        let failure = Failure::new(ErrorCode::MissingValue, texts::MISSING_ARGUMENT.with(&[]));
        return Err(failure.with_usage(command));
    };
    if parsed.arguments.len() > 1 || wanted.len() > LONGEST_NAME {
        // Neither is shown again.
        let failure = Failure::new(ErrorCode::InvalidValue, texts::KEY_ON_COMMAND_LINE.with(&[]));
        return Err(failure.with_hint(texts::KEY_FROM_STDIN.with(&[])));
    }
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let models = registry(app, &home, &loaded, std::sync::Arc::new(tidegate_models::Forgetful));
    let provider = provider(models.catalogue(), wanted)?;
    match provider.id.as_str() {
        account::CODEX | account::COPILOT => account::log_in(app, parsed, &loaded, &models, provider),
        _ => key::store(app, parsed, &models, provider),
    }
}

fn provider<'a>(catalogue: &'a Catalogue, wanted: &str) -> Result<&'a ProviderInfo, Failure> {
    let takes_credentials = |provider: &&ProviderInfo| !matches!(provider.api, Api::Offline | Api::Scripted);
    if let Some(found) = catalogue.provider(wanted).filter(takes_credentials) {
        return Ok(found);
    }
    let names = || catalogue.providers().filter(takes_credentials).map(|provider| provider.id.as_str());
    let message = texts::UNSUPPORTED_AUTH_PROVIDER.with(&[("provider", &printable(wanted))]);
    let failure = Failure::new(ErrorCode::UnsupportedProvider, message);
    if let Some(meant) = closest(wanted, names()) {
        return Err(failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &meant)])));
    }
    let known = names().collect::<Vec<_>>().join(", ");
    Err(failure.with_hint(texts::KNOWN_PROVIDERS.with(&[("known", &known)])))
}
