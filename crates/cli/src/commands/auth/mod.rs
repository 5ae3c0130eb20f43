//! `auth`: the credentials of model providers, stored, chosen, removed, brought along.

pub(in crate::commands) mod account;
pub(in crate::commands) mod ask;
mod import;
mod key;
mod login;
mod status;

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use tidegate_config::Loaded;
use tidegate_engine::Home;
use tidegate_models::Forgetful;
use tidegate_protocol::ErrorCode;
use tidegate_secrets::{CredentialStore, ProfileId};

pub(super) use import::import;
pub(super) use login::login;
pub(super) use status::status;

use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::registry::registry;
use crate::{Outcome, texts};

/// The stored credentials; the place for them is made if need be.
fn store(app: &App, home: &Home, loaded: &Loaded) -> Result<Arc<CredentialStore>, Failure> {
    Ok(Arc::clone(registry(app, home, loaded, Arc::new(Forgetful)).credentials()?))
}

/// The stored credentials, unless nothing was ever stored: looking makes nothing.
fn existing(app: &App, home: &Home, loaded: &Loaded) -> Result<Option<Arc<CredentialStore>>, Failure> {
    if !home.credentials().join("profiles.json").exists() {
        return Ok(None);
    }
    store(app, home, loaded).map(Some)
}

/// What the store has to say about itself: modes that were mended, keys that had to be made.
pub(in crate::commands) fn tell_notices(app: &App, store: &CredentialStore) {
    for notice in store.take_notices() {
        complain(&app.fill(texts::AUTH_NOTICE, &[("notice", &printable(&notice))]));
    }
}

fn not_found(wanted: &str) -> Failure {
    let message = texts::PROFILE_NOT_FOUND.with(&[("name", &printable(wanted))]);
    Failure::new(ErrorCode::NotFound, message).with_hint(texts::SEE_AUTH_STATUS.with(&[]))
}

/// What cannot be the name of a profile is the name of none.
fn id_of(wanted: &str) -> Result<ProfileId, Failure> {
    wanted.parse().map_err(|_| not_found(wanted))
}

/// `auth use`.
pub(super) fn choose(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let wanted = &parsed.arguments[0];
    let id = id_of(wanted)?;
    let store = existing(app, &home, &loaded)?.ok_or_else(|| not_found(wanted))?;
    store.set_active(&id)?;
    tell_notices(app, &store);
    if parsed.has("json") {
        print_json(&json!({ "active": id.as_str() }))?;
    } else {
        print_line(&app.fill(texts::PROFILE_CHOSEN, &[("id", &id)]))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logout(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let named = parsed.arguments.first();
    if named.is_some() && parsed.has("all") {
        let message = texts::LOGOUT_ALL_OR_ONE.with(&[]);
        return Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command));
    }
    let store = existing(app, &home, &loaded)?;
    let (removed, told) = match (&store, named) {
        (store, Some(wanted)) => {
            let id = id_of(wanted)?;
            store.as_ref().ok_or_else(|| not_found(wanted))?.remove(&id)?;
            (vec![id.to_string()], app.fill(texts::PROFILE_REMOVED, &[("id", &id)]))
        }
        (Some(store), None) if parsed.has("all") => {
            let all = store.list()?.profiles.into_iter().map(|profile| profile.id.to_string()).collect();
            store.remove_all()?;
            (all, app.say(texts::PROFILES_REMOVED).to_owned())
        }
        (None, None) if parsed.has("all") => (Vec::new(), app.say(texts::PROFILES_REMOVED).to_owned()),
        (Some(store), None) => match store.list()?.active {
            Some(id) => {
                store.remove(&id)?;
                (vec![id.to_string()], app.fill(texts::PROFILE_REMOVED, &[("id", &id)]))
            }
            None => (Vec::new(), app.say(texts::NO_ACTIVE_PROFILE).to_owned()),
        },
        (None, None) => (Vec::new(), app.say(texts::NO_ACTIVE_PROFILE).to_owned()),
    };
    if let Some(store) = &store {
        tell_notices(app, store);
    }
    if parsed.has("json") {
        print_json(&json!({ "removed": removed }))?;
    } else {
        print_line(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rotate_key(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let Some(store) = existing(app, &home, &loaded)? else {
        if parsed.has("json") {
            print_json(&json!({ "rotated": false, "resealed": 0, "left": [] }))?;
        } else {
            print_line(&app.fill(texts::NO_KEY_YET, &[("program", &app.program)]))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let rotation = store.rotate_key()?;
    tell_notices(app, &store);
    let place = rotation.place.as_str();
    if parsed.has("json") {
        let left: Vec<&str> = rotation.left.iter().map(ProfileId::as_str).collect();
        print_json(&json!({ "rotated": true, "place": place, "resealed": rotation.resealed, "left": left }))?;
    } else {
        print_line(&app.fill(texts::KEY_ROTATED, &[("place", &place), ("count", &rotation.resealed)]))?;
        for id in &rotation.left {
            complain(&app.fill(texts::NOT_RESEALED, &[("id", id)]));
        }
    }
    Ok(ExitCode::SUCCESS)
}
