//! Groups about the config file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_config::testing::{get, included, set, substituted, unset};
use tidegate_config::{Env, KeyPath, ValueError, parse_value};

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "env" => env,
        "env_subst" => env_subst,
        "include" => include,
        "config_path_parse" => path_parse,
        "config_path_set" => path_set,
        "config_path_unset" => path_unset,
        "config_path_get" => path_get,
        "config_value" => value,
        _ => return None,
    })
}

/// In all of them `A` is 1.
fn env(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        t: Value,
        out: Value,
    }
    let Case { t, out } = read(case)?;
    let env = Env::from_iter([("A", "1")]);
    compared(out, substituted(&t, &env).unwrap_or_else(Value::from))
}

fn env_subst(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        value: Value,
        env: BTreeMap<String, String>,
    }
    let (Input { value, env }, out) = in_and_out(case)?;
    compared(out, substituted(&value, &env.into_iter().collect()).unwrap_or_else(Value::from))
}

fn include(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        files: BTreeMap<PathBuf, String>,
        config_path: PathBuf,
        config: Value,
    }
    let (Input { files, config_path, config }, out) = in_and_out(case)?;
    let read = |file: &Path| files.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into());
    compared(out, included(&config, &config_path, &read).unwrap_or_else(Value::from))
}

fn path_parse(case: &Value) -> Result<Compared, String> {
    let (text, out): (String, Value) = in_and_out(case)?;
    let ours = match text.parse::<KeyPath>() {
        Ok(path) => json!({ "ok": true, "path": path.segments() }),
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    };
    compared(out, ours)
}

#[derive(Deserialize)]
struct At {
    root: Value,
    path: Vec<String>,
    #[serde(default)]
    value: Value,
}

fn at(case: &Value) -> Result<(At, KeyPath, Value), String> {
    let (at, out): (At, Value) = in_and_out(case)?;
    let path = KeyPath::from_segments(at.path.iter().map(String::as_str));
    Ok((at, path.map_err(|error| error.to_string())?, out))
}

fn path_set(case: &Value) -> Result<Compared, String> {
    let (At { mut root, value, .. }, path, out) = at(case)?;
    let ours = set(&mut root, &path, value).map_or_else(|error| error.to_string().into(), |()| root);
    compared(out, ours)
}

fn path_unset(case: &Value) -> Result<Compared, String> {
    let (At { mut root, .. }, path, out) = at(case)?;
    let removed = unset(&mut root, &path);
    compared(out, json!({ "removed": removed, "root": root }))
}

fn path_get(case: &Value) -> Result<Compared, String> {
    let (At { root, .. }, path, out) = at(case)?;
    compared(out, get(&root, &path).cloned().unwrap_or_default())
}

/// Of an error in JSON only the beginning is recorded.
fn value(case: &Value) -> Result<Compared, String> {
    let (text, out): (String, Value) = in_and_out(case)?;
    let ours = match parse_value(&text) {
        Ok(value) => json!({ "value": value }),
        Err(error @ ValueError::InvalidJson(_)) => {
            let told = error.to_string();
            let prefix = out["error_prefix"].as_str().filter(|prefix| told.starts_with(prefix));
            json!({ "error_prefix": prefix.unwrap_or(&told) })
        }
        Err(error) => json!({ "error": error.to_string() }),
    };
    compared(out, ours)
}
