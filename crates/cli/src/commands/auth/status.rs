//! `auth status`: which credentials there are, wherever they are kept. Names only, never what opens anything.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_config::Loaded;
use tidegate_config::schema::Config;
use tidegate_engine::{Home, Settings, standing_of};
use tidegate_models::{Catalogue, FailureKind, Standing, StandingKey};
use tidegate_runtime::iso_timestamp;
use tidegate_secrets::{Listing, ProfileSummary};

use super::{existing, tell_notices};
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::output::{print_json, print_line, printable};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// A credential that is not stored by us.
struct Elsewhere {
    provider: String,
    /// The variable, or the key of the configuration.
    place: String,
}

pub(in crate::commands) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let file = home.credentials().join("profiles.json");
    let listing = match existing(app, &home, &loaded)? {
        Some(store) => {
            let listing = store.list()?;
            tell_notices(app, &store);
            listing
        }
        None => Listing { profiles: Vec::new(), active: None },
    };
    let now = now_ms();
    let resting = resting(&home, &loaded, now);
    let variables = variables(app, &loaded);
    let configured = configured(&loaded.config);
    if parsed.has("json") {
        let places = |name: &str, all: &[Elsewhere]| -> Vec<Value> {
            all.iter().map(|found| json!({ name: found.place, "provider": found.provider })).collect()
        };
        print_json(&json!({
            "profiles": listing.profiles.iter().map(|profile| profile_json(profile, now)).collect::<Vec<_>>(),
            "active": listing.active.as_ref().map(ToString::to_string),
            "file": file,
            "environment": places("variable", &variables),
            "configuration": places("path", &configured),
            "coolingDown": resting.iter().map(resting_json).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if listing.profiles.is_empty() {
        print_line(app.say(texts::NO_AUTH_PROFILES))?;
        print_line(&app.fill(texts::AUTH_HINT, &[("program", &app.program)]))?;
    } else {
        print_line(app.say(texts::AUTH_PROFILES))?;
        for profile in &listing.profiles {
            print_line(&printable(&line(app, profile, now)))?;
        }
    }
    print_line(&app.fill(texts::PROFILE_FILE, &[("file", &file.display())]))?;
    if !listing.profiles.is_empty() {
        let active = listing.active.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string);
        print_line(&app.fill(texts::ACTIVE_PROFILE, &[("id", &printable(&active))]))?;
    }
    for (title, found) in [(texts::AUTH_ENVIRONMENT, &variables), (texts::AUTH_CONFIGURED, &configured)] {
        if !found.is_empty() {
            print_line(app.say(title))?;
        }
        for Elsewhere { provider, place } in found {
            print_line(&printable(&format!("* {place} provider={provider}")))?;
        }
    }
    if !resting.is_empty() {
        print_line(app.say(texts::AUTH_RESTING))?;
    }
    for (key, standing) in &resting {
        let what = key.model.as_ref().map_or_else(String::new, |model| format!(" {}/{model}", key.provider));
        let reason = standing.reason.map_or("-", |reason| reason.as_str());
        let until = iso_timestamp(standing.until());
        let told = app.fill(texts::COOLING, &[("until", &until), ("reason", &reason)]);
        print_line(&printable(&format!("* {}{what} {told}", key.profile_id)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Credentials that are left alone for now. A database that does not answer hides nothing else.
fn resting(home: &Home, loaded: &Loaded, now: i64) -> Vec<(StandingKey, Standing)> {
    let read = block_on(async {
        let tenant = Settings::new(loaded).scope(None)?.tenant;
        let Some(store) = open_existing(home, &loaded.config).await? else { return Ok(Vec::new()) };
        Ok(store.standings(&tenant).await?)
    });
    let known = read.unwrap_or_default().into_iter().map(standing_of);
    known.filter(|(_, standing)| standing.is_cooling(now)).collect()
}

fn resting_json((key, standing): &(StandingKey, Standing)) -> Value {
    json!({
        "id": key.profile_id,
        "model": key.model,
        "until": iso_timestamp(standing.until()),
        "reason": standing.reason.map(FailureKind::as_str),
    })
}

/// The contract's line; codes and fields are the same in every language.
fn line(app: &App, profile: &ProfileSummary, now: i64) -> String {
    let account = profile.account_id.as_ref().or(profile.email.as_ref()).map_or("-", String::as_str);
    let mut line = format!(
        "* {} provider={} expires={} account={account} type={}",
        profile.id,
        profile.id.provider(),
        expires(profile.expires_at, now),
        profile.kind,
    );
    if profile.active {
        line.push_str(" active");
    }
    if let Some(reason) = &profile.unreadable {
        line = format!("{line}\n  {}", app.fill(texts::AUTH_UNREADABLE, &[("reason", reason)]));
    }
    line
}

fn expires(at: Option<i64>, now: i64) -> String {
    match at {
        None => "never".to_owned(),
        Some(at) if at <= now => "expired".to_owned(),
        Some(at) => format!("{}m", (at - now) / 60_000),
    }
}

fn profile_json(profile: &ProfileSummary, now: i64) -> Value {
    json!({
        "id": profile.id.as_str(),
        "provider": profile.id.provider(),
        "type": profile.kind,
        "account": profile.account_id,
        "email": profile.email,
        "expiresAt": profile.expires_at.map(iso_timestamp),
        "expired": profile.expires_at.is_some_and(|at| at <= now),
        "createdAt": iso_timestamp(profile.created_at),
        "updatedAt": iso_timestamp(profile.updated_at),
        "active": profile.active,
        "unreadable": profile.unreadable.as_ref().map(ToString::to_string),
    })
}

/// Variables that are set and count as keys, of this process and of `env.vars`.
fn variables(app: &App, loaded: &Loaded) -> Vec<Elsewhere> {
    let brought = &loaded.config.env.vars;
    let is_set = |name: &str| {
        let own = app.env.get(name).is_some_and(|value| !value.trim().is_empty());
        own || brought.get(name).is_some_and(|value| !value.expose().trim().is_empty())
    };
    let catalogue = Catalogue::new(&loaded.config, std::path::Path::new(""));
    let mut found = Vec::new();
    for provider in catalogue.providers() {
        for name in provider.key_variables.iter().filter(|name| is_set(name)) {
            found.push(Elsewhere { provider: provider.id.clone(), place: name.clone() });
        }
    }
    found
}

fn configured(config: &Config) -> Vec<Elsewhere> {
    let with_key = config.models.providers.iter();
    let with_key = with_key.filter(|(_, said)| said.api_key.as_ref().is_some_and(|key| !key.is_empty()));
    with_key
        .map(|(name, _)| Elsewhere {
            provider: name.clone(),
            place: format!("models.providers.{name}.apiKey"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_in_minutes() {
        assert_eq!(expires(None, 0), "never");
        assert_eq!(expires(Some(0), 0), "expired");
        assert_eq!(expires(Some(59_999), 0), "0m");
        assert_eq!(expires(Some(3_600_000), 0), "60m");
    }
}
