//! `config.*`: the configuration file. Secrets are shown as a mask, and a mask that comes back means what was there.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_config::{
    Change, ConfigFile, EditError, Env, KeyPath, LoadError, Reveal, Secrets, json_schema, parse_document,
};
use tidegate_secrets::REDACTED;

use crate::gate::{Gate, VERSION};
use crate::methods::{Caller, Nothing};
use crate::restart::take_configuration;
use crate::ws::frame::WireError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigSet {
    #[schemars(length(min = 1))]
    raw: String,
    base_hash: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ConfigApply {
    #[schemars(length(min = 1))]
    raw: String,
    base_hash: Option<String>,
    session_key: Option<String>,
    note: Option<String>,
    restart_delay_ms: Option<u64>,
}

fn file(gate: &Gate) -> ConfigFile {
    let home = gate.engine().home();
    ConfigFile::new(home.config_file(), home.revisions())
}

/// Reads and writes files away from the tasks that serve sockets.
async fn blocking<T: Send + 'static>(
    gate: &Gate,
    work: impl FnOnce(&ConfigFile, &Env, i64) -> Result<T, WireError> + Send + 'static,
) -> Result<T, WireError> {
    let (file, now) = (file(gate), gate.shared.now());
    let task =
        tidegate_runtime::spawn_blocking("gateway.config", move || work(&file, &Env::of_this_process(), now));
    task.join().await.map_err(|end| WireError::unavailable(end.to_string()))?
}

pub(crate) async fn get(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    blocking(&caller.gate, |file, env, _| Ok(snapshot(file, env))).await
}

fn snapshot(file: &ConfigFile, env: &Env) -> Value {
    let source =
        file.get(None, Reveal::Source, Secrets::Redacted, env).ok().flatten().unwrap_or_else(|| json!({}));
    let (config, hash, issues) = match file.load(env) {
        Ok(loaded) => {
            let shown = file.get(None, Reveal::Effective, Secrets::Redacted, env).ok().flatten();
            (shown.unwrap_or_else(|| json!({})), loaded.hash, Vec::new())
        }
        Err(error) => (source.clone(), String::new(), issues_of(&error)),
    };
    json!({
        "path": file.path(), "exists": file.path().exists(), "valid": issues.is_empty(), "hash": hash,
        "raw": serde_json::to_string_pretty(&source).unwrap_or_default(), "parsed": source, "sourceConfig": source,
        "resolved": config, "runtimeConfig": config, "config": config, "issues": issues, "warnings": [],
        "legacyIssues": [], "includedPaths": [],
    })
}

fn issues_of(error: &LoadError) -> Vec<Value> {
    let told: Vec<Value> = error
        .problems()
        .iter()
        .map(|problem| json!({ "path": problem.path, "message": problem.message }))
        .collect();
    if told.is_empty() { vec![json!({ "path": "", "message": error.to_string() })] } else { told }
}

pub(crate) async fn schema(caller: Caller, _: Nothing) -> Result<Value, WireError> {
    Ok(json!({
        "schema": json_schema(), "uiHints": {}, "version": VERSION, "generatedAt": caller.gate.shared.started_at,
    }))
}

/// How what came is put into what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Replace,
    Merge,
}

pub(crate) async fn set(caller: Caller, params: ConfigSet) -> Result<Value, WireError> {
    write(&caller.gate, params.raw, params.base_hash, Put::Replace).await
}

pub(crate) async fn patch(caller: Caller, params: ConfigApply) -> Result<Value, WireError> {
    let answer = write(&caller.gate, params.raw, params.base_hash, Put::Merge).await?;
    Ok(with_restart(&caller.gate, answer).await)
}

pub(crate) async fn apply(caller: Caller, params: ConfigApply) -> Result<Value, WireError> {
    let answer = write(&caller.gate, params.raw, params.base_hash, Put::Replace).await?;
    Ok(with_restart(&caller.gate, answer).await)
}

/// Lets the gateway take what the file holds now, and says whether it does.
async fn with_restart(gate: &Gate, mut answer: Value) -> Value {
    answer["restart"] = take_configuration(gate.shared.options.restart.as_ref()).await;
    answer
}

async fn write(gate: &Gate, raw: String, base: Option<String>, put: Put) -> Result<Value, WireError> {
    let wanted = parse_document(&raw).map_err(|problems| {
        let first = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
        WireError::invalid(format!("invalid config: {first}"))
    })?;
    if !wanted.is_object() {
        return Err(WireError::invalid("invalid config: it must be an object"));
    }
    blocking(gate, move |file, env, now| {
        let source = file.get(None, Reveal::Source, Secrets::Shown, env);
        let current = source.map_err(|error| WireError::invalid(error.to_string()))?.unwrap_or_else(|| json!({}));
        if file.path().exists() && base.is_none() {
            return Err(WireError::invalid("config base hash required; re-run config.get and retry"));
        }
        let target = match put {
            Put::Replace => wanted,
            Put::Merge => merge(&current, &wanted),
        };
        let mut changes = Vec::new();
        differences(&current, &target, &mut Vec::new(), &mut changes)?;
        if !changes.is_empty() {
            file.edit_all(&changes, base.as_deref(), env, now).map_err(|error| refused(&error))?;
        }
        let snapshot = snapshot(file, env);
        Ok(json!({ "ok": true, "path": snapshot["path"], "config": snapshot["config"], "hash": snapshot["hash"] }))
    })
    .await
}

fn refused(error: &EditError) -> WireError {
    if error.code() == "CONFIG_CONFLICT" {
        return WireError::invalid("config changed since last load; re-run config.get and retry");
    }
    WireError::invalid(format!("invalid config: {error}"))
}

/// A merge patch: objects are merged, `null` takes away, everything else replaces.
pub(crate) fn merge(base: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = base.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            merged.shift_remove(key);
        } else {
            let before = merged.get(key).cloned().unwrap_or(Value::Null);
            merged.insert(key.clone(), merge(&before, value));
        }
    }
    Value::Object(merged)
}

/// What has to change, key by key, so that what does not is left as it is written.
fn differences(
    from: &Value,
    to: &Value,
    at: &mut Vec<String>,
    changes: &mut Vec<Change>,
) -> Result<(), WireError> {
    if from == to || to.as_str() == Some(REDACTED) {
        return Ok(());
    }
    if let (Value::Object(from), Value::Object(to)) = (from, to) {
        for key in from.keys().filter(|key| !to.contains_key(*key)) {
            at.push(key.clone());
            changes.push(Change::Unset { path: path_of(at)? });
            at.pop();
        }
        for (key, value) in to {
            at.push(key.clone());
            differences(from.get(key).unwrap_or(&Value::Null), value, at, changes)?;
            at.pop();
        }
        return Ok(());
    }
    let value = unmasked(from, to);
    changes.push(Change::Set { path: path_of(at)?, value });
    Ok(())
}

/// What came, with what was there in the place of masks.
fn unmasked(from: &Value, to: &Value) -> Value {
    match to {
        Value::String(text) if text == REDACTED => from.clone(),
        Value::Array(items) => {
            let before = |index: usize| from.get(index).unwrap_or(&Value::Null);
            items.iter().enumerate().map(|(index, item)| unmasked(before(index), item)).collect()
        }
        Value::Object(fields) => {
            let before = |key: &str| from.get(key).unwrap_or(&Value::Null);
            let fields: Map<String, Value> =
                fields.iter().map(|(key, value)| (key.clone(), unmasked(before(key), value))).collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

fn path_of(at: &[String]) -> Result<KeyPath, WireError> {
    KeyPath::from_segments(at.iter().cloned()).map_err(|error| WireError::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed_and_a_mask_changes_nothing() {
        let from =
            json!({ "a": 1, "gone": true, "deep": { "key": "secret", "n": 1 }, "list": [{ "key": "s" }] });
        let to = json!({ "a": 1, "deep": { "key": REDACTED, "n": 2 }, "list": [{ "key": REDACTED, "m": 3 }], "new": {} });
        let mut changes = Vec::new();
        differences(&from, &to, &mut Vec::new(), &mut changes).unwrap();
        let path = |segments: &[&str]| KeyPath::from_segments(segments.iter().copied()).unwrap();
        assert_eq!(
            changes,
            [
                Change::Unset { path: path(&["gone"]) },
                Change::Set { path: path(&["deep", "n"]), value: json!(2) },
                Change::Set { path: path(&["list"]), value: json!([{ "key": "s", "m": 3 }]) },
                Change::Set { path: path(&["new"]), value: json!({}) },
            ]
        );
    }
}
