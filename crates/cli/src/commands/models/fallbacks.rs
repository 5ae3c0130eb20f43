//! `models fallbacks`: the models that stand in when the first one fails, in their order.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_config::{Change, KeyPath, Reveal, Secrets};
use tidegate_protocol::ErrorCode;

use super::choose::{path, warn};
use super::{Known, not_found};
use crate::app::{App, config_file, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::config::mention_restart;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::{Outcome, texts};

fn key() -> Result<KeyPath, Failure> {
    path(&["agents", "defaults", "model", "fallbacks"])
}

/// The names as the file has them, so that a change keeps how they are written.
fn written(app: &App, known: &Known) -> Result<Vec<String>, Failure> {
    let file = config_file(&known.home);
    let list = file.get(Some(&key()?), Reveal::Source, Secrets::Redacted, &app.env)?;
    let names = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
}

pub(in crate::commands) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let names = &known.loaded.config.agents.defaults.model.fallbacks;
    if parsed.has("json") {
        print_json(&json!({ "fallbacks": names }))?;
    } else if names.is_empty() {
        print_line(&app.fill(texts::NO_FALLBACKS, &[("program", &app.program)]))?;
    } else {
        for (at, name) in names.iter().enumerate() {
            print_line(&format!("{}. {}", at + 1, printable(name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn add(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let model = known.resolve(&parsed.arguments[0])?;
    let scope = known.settings.scope(None)?;
    known.settings.permitted(&scope.agent, vec![model.clone()])?;
    let mut names = written(app, &known)?;
    if names.iter().any(|name| known.catalogue().resolve(name).as_ref() == Some(&model)) {
        let message = texts::FALLBACK_THERE.with(&[("model", &model)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    }
    names.push(model.to_string());
    save(app, parsed, &known, &names)?;
    if known.loaded.config.agents.defaults.model.primary.is_none() {
        complain(&app.fill(texts::FALLBACK_WITHOUT_PRIMARY, &[("program", &app.program)]));
    }
    warn(app, &known, &model)?;
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn remove(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let wanted = &parsed.arguments[0];
    let meant = known.catalogue().resolve(wanted);
    let mut names = written(app, &known)?;
    let before = names.len();
    // A name that nobody knows any more can be taken out as it is written.
    names.retain(|name| name != wanted && (meant.is_none() || known.catalogue().resolve(name) != meant));
    if names.len() == before {
        return Err(not_found(texts::FALLBACK_NOT_THERE.with(&[("model", &printable(wanted))])));
    }
    save(app, parsed, &known, &names)?;
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn clear(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    if written(app, &known)?.is_empty() {
        return list(app, command, parsed);
    }
    save(app, parsed, &known, &[])?;
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

fn save(app: &App, parsed: &Parsed, known: &Known, names: &[String]) -> Result<(), Failure> {
    let change = if names.is_empty() {
        Change::Unset { path: key()? }
    } else {
        Change::Set { path: key()?, value: json!(names) }
    };
    let edited = config_file(&known.home).edit(&change, None, &app.env, now_ms())?;
    if parsed.has("json") {
        return print_json(&json!({
            "ok": true, "fallbacks": names, "hash": edited.hash, "revision": edited.revision.number,
        }));
    }
    let revision = edited.revision.number;
    print_line(&if names.is_empty() {
        app.fill(texts::FALLBACKS_CLEARED, &[("revision", &revision)])
    } else {
        let list = printable(&names.join(", "));
        app.fill(texts::FALLBACKS_SET, &[("list", &list), ("revision", &revision)])
    })
}
