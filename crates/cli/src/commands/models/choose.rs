//! `models set`: which model answers, written into the configuration file without touching the rest of it.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_config::{Change, ConfigFile, KeyPath, Reveal, Secrets};
use tidegate_protocol::{ErrorCode, ModelRef};

use super::{Known, near, not_found};
use crate::app::{App, config_file, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::config::mention_restart;
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::{Outcome, texts};

pub(in crate::commands) fn set(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let scope = known.settings.scope(parsed.value("agent"))?;
    let model = known.resolve(&parsed.arguments[0])?;
    known.settings.permitted(&scope.agent, vec![model.clone()])?;
    let file = config_file(&known.home);
    let path = match parsed.value("agent") {
        None => path(&["agents", "defaults", "model", "primary"])?,
        Some(agent) => path_of_agent(app, &file, agent)?,
    };
    let change = Change::Set { path: path.clone(), value: model.to_string().into() };
    let edited = file.edit(&change, None, &app.env, now_ms())?;
    if parsed.has("json") {
        print_json(&json!({
            "ok": true, "model": model.to_string(), "path": path.to_string(), "hash": edited.hash,
            "revision": edited.revision.number, "credential": known.has_credential(&model)?,
        }))?;
    } else {
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("model", &model), ("path", &path), ("revision", &edited.revision.number)];
        print_line(&app.fill(texts::MODEL_SET, &values))?;
    }
    warn(app, &known, &model)?;
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

/// What may keep the model from answering, told at once and not with the first question.
pub(super) fn warn(app: &App, known: &Known, model: &ModelRef) -> Result<(), Failure> {
    if !known.has_credential(model)? {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("provider", &model.provider), ("program", &app.program)];
        complain(&app.fill(texts::MODEL_WITHOUT_CREDENTIAL, &values));
    }
    let provider = known.catalogue().provider(&model.provider);
    // A provider of whose models nothing is known is not expected to know this one.
    let listed = |provider: &tidegate_models::ProviderInfo| {
        provider.models.is_empty() || provider.models.iter().any(|listed| listed.id == model.model)
    };
    if !provider.is_some_and(listed) {
        let name = printable(&model.to_string());
        complain(&match near(known.catalogue(), &name) {
            Some(meant) => app.fill(texts::MODEL_UNKNOWN_NEAR, &[("model", &name), ("meant", &meant)]),
            None => app.fill(texts::MODEL_UNKNOWN, &[("model", &name)]),
        });
    }
    Ok(())
}

pub(super) fn path(segments: &[&str]) -> Result<KeyPath, Failure> {
    KeyPath::from_segments(segments.iter().copied())
        .map_err(|error| Failure::new(ErrorCode::ConfigPath, Message::plain(error.to_string())))
}

/// Where the file says which model this agent has. An agent of the list is found by its id; the one that is there
/// without a list has the defaults.
fn path_of_agent(app: &App, file: &ConfigFile, agent: &str) -> Result<KeyPath, Failure> {
    let list = path(&["agents", "list"])?;
    let list = file.get(Some(&list), Reveal::Source, Secrets::Redacted, &app.env)?;
    let entries = list.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(at) = entries.iter().position(|entry| entry["id"] == agent) else {
        if entries.is_empty() && list.is_none_or(|list| list.is_array()) {
            return path(&["agents", "defaults", "model", "primary"]);
        }
        let message = texts::AGENT_ELSEWHERE.with(&[("agent", &agent), ("file", &file.path().display())]);
        return Err(not_found(message));
    };
    let index = at.to_string();
    if entries[at]["model"].is_object() {
        path(&["agents", "list", &index, "model", "primary"])
    } else {
        path(&["agents", "list", &index, "model"])
    }
}
