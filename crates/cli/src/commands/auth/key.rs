//! Storing a provider's key, or a fixed token. It comes from the terminal or from standard input, never from the
//! command line, which the shell's history and every process of the machine can read.

use std::io::Read as _;
use std::process::ExitCode;

use serde_json::json;
use tidegate_models::{ProviderInfo, Registry};
use tidegate_protocol::ErrorCode;
use tidegate_secrets::{Credential, CredentialStore, ProfileId, Secret};

use super::{ask, tell_notices};
use crate::app::App;
use crate::arguments::Parsed;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::{Outcome, texts};

/// Longer than any key.
const LONGEST: usize = 16 << 10;

pub(super) fn store(app: &App, parsed: &Parsed, models: &Registry, provider: &ProviderInfo) -> Outcome {
    let id = ProfileId::new(&provider.id, parsed.value("name").unwrap_or("default"))?;
    if !parsed.has("stdin") && !ask::is_there() {
        let message = texts::NOBODY_TO_ASK.with(&[("provider", &provider.id)]);
        return Err(Failure::new(ErrorCode::MissingValue, message).with_hint(texts::KEY_FROM_STDIN.with(&[])));
    }
    let store = models.credentials()?;
    if !may_replace(app, parsed, store, &id)? {
        print_line(app.say(texts::NOTHING_STORED))?;
        return Ok(ExitCode::from(1));
    }
    let secret = read(app, parsed, provider)?;
    let credential = if parsed.has("token") || is_token(provider, &secret) {
        Credential::Token { token: secret, expires_at: None, email: None }
    } else {
        Credential::ApiKey { key: secret, email: None }
    };
    let kind = credential.kind();
    let profile = store.put(&id, credential)?;
    tell_notices(app, store);
    if parsed.has("json") {
        print_json(&json!({ "id": profile.id.as_str(), "provider": provider.id, "type": kind }))?;
    } else {
        print_line(&app.fill(texts::PROFILE_CREATED, &[("id", &profile.id)]))?;
        print_line(&app.fill(texts::TRY_IT, &[("program", &app.program), ("provider", &provider.id)]))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One that is there is only replaced by somebody who knows it.
fn may_replace(app: &App, parsed: &Parsed, store: &CredentialStore, id: &ProfileId) -> Result<bool, Failure> {
    let there = store.list()?.profiles.into_iter().find(|profile| profile.id == *id);
    // One that cannot be opened any more is of no use to anybody.
    if parsed.has("yes") || there.is_none_or(|profile| profile.unreadable.is_some()) {
        return Ok(true);
    }
    if parsed.has("stdin") || !ask::is_there() {
        let message = texts::PROFILE_EXISTS.with(&[("id", id)]);
        return Err(
            Failure::new(ErrorCode::MissingValue, message).with_hint(texts::PROFILE_EXISTS_HINT.with(&[]))
        );
    }
    ask::yes(&app.fill(texts::REPLACE_QUESTION, &[("id", id)]))
}

fn read(app: &App, parsed: &Parsed, provider: &ProviderInfo) -> Result<Secret, Failure> {
    let secret = if parsed.has("stdin") {
        from_stdin()?
    } else {
        if let Some(docs) = &provider.docs {
            complain(&app.fill(texts::WHERE_KEYS_ARE, &[("name", &provider.name), ("url", docs)]));
        }
        ask::secret(&app.fill(texts::KEY_QUESTION, &[("name", &printable(&provider.name))]))?
    };
    match objection(secret.expose()) {
        None => Ok(secret),
        Some(text) => Err(Failure::new(ErrorCode::InvalidValue, text.with(&[]))),
    }
}

fn from_stdin() -> Result<Secret, Failure> {
    let mut bytes = Vec::with_capacity(LONGEST + 1);
    std::io::stdin().lock().take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(ErrorCode::InvalidValue, texts::NOT_A_KEY.with(&[])))?;
    Ok(ask::trimmed(text))
}

/// Why a text cannot be a key. It travels in a header, so nothing but visible ASCII will do.
fn objection(text: &str) -> Option<tidegate_runtime::catalogue::Text> {
    if text.is_empty() {
        return Some(texts::NO_KEY_GIVEN);
    }
    let fits = text.len() <= LONGEST && text.chars().all(|c| c.is_ascii_graphic());
    (!fits).then_some(texts::NOT_A_KEY)
}

/// Anthropic's tokens of a subscription are sent otherwise than its keys, and look much like them.
fn is_token(provider: &ProviderInfo, secret: &Secret) -> bool {
    provider.id == "anthropic" && secret.expose().starts_with("sk-ant-oat")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_travel_in_a_header_is_no_key() {
        let said = |text: &str| objection(text).map(|text| text.en);
        assert_eq!(said("abc-123"), None);
        assert_eq!(said(""), Some(texts::NO_KEY_GIVEN.en));
        for text in ["two words", "a\nb", "schlüssel", "a\u{1b}[2J"] {
            assert_eq!(said(text), Some(texts::NOT_A_KEY.en), "{text:?}");
        }
        assert_eq!(said(&"x".repeat(LONGEST + 1)), Some(texts::NOT_A_KEY.en));
    }
}
