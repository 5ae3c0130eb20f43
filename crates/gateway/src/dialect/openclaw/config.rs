//! `config.*`: the configuration file. Secrets are shown as a mask, and a mask that comes back means what was there.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_config::{ConfigFile, EditError, Env, LoadError, Reveal, Secrets, json_schema, parse_document};

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
        if file.path().exists() && base.is_none() {
            return Err(WireError::invalid("config base hash required; re-run config.get and retry"));
        }
        let base = base.as_deref();
        let edited = match put {
            Put::Replace => file.replace(&wanted, base, env, now),
            Put::Merge => file.patch(&wanted, base, env, now),
        };
        edited.map_err(|error| refused(&error))?;
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
