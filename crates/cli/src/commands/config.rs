//! `config`: reading and changing `config.json5`.

use std::process::ExitCode;

use serde_json::json;
use tidegate_config::{Change, KeyPath, Origin, Reveal, Secrets, parse_value};
use tidegate_engine::{Settings, SettingsError};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::iso_timestamp;

use super::sessions::titles;
use crate::app::{App, config_file, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print, print_json, print_line, table};
use crate::{Outcome, texts};

pub(super) fn get(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let file = config_file(&home_of(parsed)?);
    let path = parsed.arguments.first().map(|text| key_path(text)).transpose()?;
    let reveal = if parsed.has("effective") { Reveal::Effective } else { Reveal::Source };
    let secrets = if parsed.has("show-secrets") { Secrets::Shown } else { Secrets::Redacted };
    let value = file.get(path.as_ref(), reveal, secrets, &app.env)?;
    let Some(value) = value else {
        let name = parsed.arguments.first().cloned().unwrap_or_default();
        let failure = Failure::new(ErrorCode::NotFound, texts::CONFIG_NOT_SET.with(&[("path", &name)]));
        return Err(match path.as_ref().and_then(tidegate_config::suggest) {
            Some(key) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &key)])),
            None if reveal == Reveal::Source => failure.with_hint(texts::CONFIG_DEFAULTS.with(&[])),
            None => failure,
        });
    };
    match value.as_str() {
        Some(text) if !parsed.has("json") => print_line(text)?,
        _ => print_json(&value)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn set(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let value = parse_value(&parsed.arguments[1])
        .map_err(|error| Failure::new(ErrorCode::ConfigValue, Message::plain(error.to_string())))?;
    change(app, parsed, &Change::Set { path: key_path(&parsed.arguments[0])?, value }, texts::CONFIG_SET)
}

pub(super) fn unset(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    change(app, parsed, &Change::Unset { path: key_path(&parsed.arguments[0])? }, texts::CONFIG_UNSET)
}

fn change(app: &App, parsed: &Parsed, change: &Change, done: tidegate_runtime::catalogue::Text) -> Outcome {
    let file = config_file(&home_of(parsed)?);
    let edited = file.edit(change, parsed.value("base-hash"), &app.env, now_ms())?;
    for problem in edited.remaining.iter().chain(&edited.warnings) {
        complain(&app.fill(texts::CONFIG_WARNING, &[("problem", problem)]));
    }
    let path = &parsed.arguments[0];
    if parsed.has("json") {
        print_json(
            &json!({ "ok": true, "path": path, "hash": edited.hash, "revision": edited.revision.number }),
        )?;
    } else {
        print_line(&app.fill(done, &[("path", path), ("revision", &edited.revision.number)]))?;
    }
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

/// A gateway that runs does not see a change by itself.
pub(super) fn mention_restart(app: &App, parsed: &Parsed) -> Result<(), Failure> {
    if home_of(parsed)?.holder().is_some_and(|holder| holder.contains("(gateway)")) {
        complain(app.say(texts::NEEDS_RESTART));
    }
    Ok(())
}

pub(super) fn validate(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let file = config_file(&home_of(parsed)?);
    match file.load(&app.env) {
        Ok(loaded) => {
            if let Err(error) = Settings::new(&loaded).check_tools() {
                return rules_invalid(parsed, file.path(), &error);
            }
            if parsed.has("json") {
                let warnings: Vec<_> = loaded
                    .warnings
                    .iter()
                    .map(|warning| json!({ "path": warning.path, "message": warning.message }))
                    .collect();
                print_json(
                    &json!({ "valid": true, "path": file.path(), "hash": loaded.hash, "warnings": warnings }),
                )?;
                return Ok(ExitCode::SUCCESS);
            }
            let text =
                if loaded.origin == Origin::Missing { texts::CONFIG_MISSING } else { texts::CONFIG_VALID };
            print_line(&app.fill(text, &[("file", &file.path().display())]))?;
            for warning in &loaded.warnings {
                complain(&app.fill(texts::CONFIG_WARNING, &[("problem", warning)]));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if parsed.has("json") => {
            let problems: Vec<_> = error.problems().iter().map(problem_json).collect();
            print_json(
                &json!({ "valid": false, "path": file.path(), "code": error.code(), "problems": problems }),
            )?;
            Ok(ExitCode::from(1))
        }
        // The hint of the general message would send the person back here.
        Err(error) => Err(Failure { hint: None, ..Failure::from(error) }),
    }
}

/// The file is right in itself, but a rule in it does not do what its own examples say.
fn rules_invalid(parsed: &Parsed, path: &std::path::Path, error: &SettingsError) -> Outcome {
    let failure = Failure::of_body(&error.body());
    if !parsed.has("json") {
        return Err(failure);
    }
    let problem = json!({ "path": "tools.rules", "message": error.to_string() });
    print_json(&json!({ "valid": false, "path": path, "code": failure.code, "problems": [problem] }))?;
    Ok(ExitCode::from(1))
}

fn problem_json(problem: &tidegate_config::Problem) -> serde_json::Value {
    json!({
        "path": problem.path, "code": problem.kind.code(), "message": problem.message, "suggestion": problem.suggestion,
    })
}

pub(super) fn schema(_app: &App, _command: &'static Command, _parsed: &Parsed) -> Outcome {
    print_json(&tidegate_config::json_schema())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn path(_app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let file = config_file(&home_of(parsed)?);
    if parsed.has("json") {
        print_json(&json!({ "path": file.path(), "exists": file.path().exists() }))?;
    } else {
        print_line(&file.path().display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn revisions(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let revisions = config_file(&home_of(parsed)?).revisions()?;
    if parsed.has("json") {
        let rows: Vec<_> = revisions
            .iter()
            .map(|revision| {
                json!({
                    "revision": revision.number, "savedAt": iso_timestamp(revision.saved_at_ms),
                    "good": revision.good, "hash": revision.hash,
                })
            })
            .collect();
        print_json(&json!({ "revisions": rows }))?;
    } else if revisions.is_empty() {
        print_line(app.say(texts::NO_REVISIONS))?;
    } else {
        let mut rows = vec![titles(app, texts::REVISION_TITLES)];
        rows.extend(revisions.iter().map(|revision| {
            vec![
                revision.number.to_string(),
                iso_timestamp(revision.saved_at_ms),
                if revision.good { "good".to_owned() } else { "bad".to_owned() },
                revision.hash.chars().take(12).collect(),
            ]
        }));
        print(&table(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rollback(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let text = &parsed.arguments[0];
    let Ok(number) = text.parse::<u64>() else {
        let failure = Failure::new(ErrorCode::InvalidValue, texts::INVALID_REVISION.with(&[("value", text)]));
        return Err(failure.with_usage(command));
    };
    let file = config_file(&home_of(parsed)?);
    let revision = file.restore(number, parsed.value("base-hash"), now_ms())?;
    if parsed.has("json") {
        print_json(
            &json!({ "ok": true, "restored": number, "revision": revision.number, "hash": revision.hash }),
        )?;
    } else {
        print_line(
            &app.fill(texts::CONFIG_RESTORED, &[("number", &number), ("revision", &revision.number)]),
        )?;
    }
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

fn key_path(text: &str) -> Result<KeyPath, Failure> {
    text.parse().map_err(|error: tidegate_config::PathError| {
        Failure::new(ErrorCode::ConfigPath, Message::plain(error.to_string()))
    })
}
