//! `config.*`: the configuration file. Secrets are shown as a mask, and a mask that comes back means what was there.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_config::{
    ConfigFile, EditError, Env, LoadError, Problem, Reveal, Secrets, json_schema, parse_document,
};

use super::answers::{EmptyList, EmptyMap};
use crate::gate::{Gate, VERSION};
use crate::methods::{Caller, Nothing};
use crate::restart::{RestartTold, take_configuration};
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

/// The file, as it is written and as it holds. Secrets are masked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigSnapshot {
    path: PathBuf,
    exists: bool,
    valid: bool,
    hash: String,
    raw: String,
    /// The configuration as it is written; so is the next.
    parsed: Value,
    source_config: Value,
    /// The configuration as it holds; so are the next two.
    resolved: Value,
    runtime_config: Value,
    config: Value,
    issues: Vec<ConfigIssue>,
    warnings: EmptyList,
    legacy_issues: EmptyList,
    included_paths: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigIssue {
    /// The key; empty when the file as a whole is meant.
    path: String,
    message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigSchema {
    /// A JSON Schema.
    schema: Value,
    ui_hints: EmptyMap,
    version: &'static str,
    generated_at: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigWritten {
    ok: bool,
    path: PathBuf,
    /// The configuration as it holds in the file now.
    config: Value,
    hash: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigApplied {
    #[serde(flatten)]
    written: ConfigWritten,
    restart: RestartTold,
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

pub(crate) async fn get(caller: Caller, _: Nothing) -> Result<ConfigSnapshot, WireError> {
    blocking(&caller.gate, |file, env, _| Ok(snapshot(file, env))).await
}

fn snapshot(file: &ConfigFile, env: &Env) -> ConfigSnapshot {
    let source =
        file.get(None, Reveal::Source, Secrets::Redacted, env).ok().flatten().unwrap_or_else(|| json!({}));
    let (config, hash, issues) = match file.load(env) {
        Ok(loaded) => {
            let shown = file.get(None, Reveal::Effective, Secrets::Redacted, env).ok().flatten();
            (shown.unwrap_or_else(|| json!({})), loaded.hash, Vec::new())
        }
        Err(error) => (source.clone(), String::new(), issues_of(&error)),
    };
    ConfigSnapshot {
        path: file.path().to_owned(),
        exists: file.path().exists(),
        valid: issues.is_empty(),
        hash,
        raw: serde_json::to_string_pretty(&source).unwrap_or_default(),
        parsed: source.clone(),
        source_config: source,
        resolved: config.clone(),
        runtime_config: config.clone(),
        config,
        issues,
        warnings: EmptyList,
        legacy_issues: EmptyList,
        included_paths: EmptyList,
    }
}

fn issues_of(error: &LoadError) -> Vec<ConfigIssue> {
    let problems = error.problems();
    if problems.is_empty() {
        return vec![ConfigIssue { path: String::new(), message: error.to_string() }];
    }
    let issue =
        |problem: &Problem| ConfigIssue { path: problem.path.clone(), message: problem.message.clone() };
    problems.iter().map(issue).collect()
}

pub(crate) async fn schema(caller: Caller, _: Nothing) -> Result<ConfigSchema, WireError> {
    let generated_at = caller.gate.shared.started_at;
    Ok(ConfigSchema { schema: json_schema(), ui_hints: EmptyMap, version: VERSION, generated_at })
}

/// How what came is put into what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Replace,
    Merge,
}

pub(crate) async fn set(caller: Caller, params: ConfigSet) -> Result<ConfigWritten, WireError> {
    write(&caller.gate, params.raw, params.base_hash, Put::Replace).await
}

pub(crate) async fn patch(caller: Caller, params: ConfigApply) -> Result<ConfigApplied, WireError> {
    let written = write(&caller.gate, params.raw, params.base_hash, Put::Merge).await?;
    Ok(with_restart(&caller.gate, written).await)
}

pub(crate) async fn apply(caller: Caller, params: ConfigApply) -> Result<ConfigApplied, WireError> {
    let written = write(&caller.gate, params.raw, params.base_hash, Put::Replace).await?;
    Ok(with_restart(&caller.gate, written).await)
}

/// Lets the gateway take what the file holds now, and says whether it does.
async fn with_restart(gate: &Gate, written: ConfigWritten) -> ConfigApplied {
    let restart = take_configuration(gate.shared.options.restart.as_ref()).await;
    ConfigApplied { written, restart }
}

async fn write(gate: &Gate, raw: String, base: Option<String>, put: Put) -> Result<ConfigWritten, WireError> {
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
        let ConfigSnapshot { path, config, hash, .. } = snapshot(file, env);
        Ok(ConfigWritten { ok: true, path, config, hash })
    })
    .await
}

fn refused(error: &EditError) -> WireError {
    if error.code() == "CONFIG_CONFLICT" {
        return WireError::invalid("config changed since last load; re-run config.get and retry");
    }
    WireError::invalid(format!("invalid config: {error}"))
}
