//! Groups about the WebSocket protocol: parameters, errors, devices, who is local, merge patches, names of conversations.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::Settings;
use tidegate_gateway::testing;

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "protocol_validate" => validate,
        "error_shape" => error_shape,
        "device_payload" => device_payload,
        "device_sign" => device_sign,
        "device_verify" => device_verify,
        "gateway_local" => local,
        "merge_patch" => merge_patch,
        "gateway_auth" => auth,
        "session_store_key" => session_store_key,
        _ => return None,
    })
}

fn validate(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        method: String,
        params: Value,
    }
    let (Input { method, params }, out) = in_and_out(case)?;
    let error = testing::problems(&method, &params)?;
    compared(out, json!({ "ok": error.is_none(), "error": error }))
}

fn error_shape(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        code: String,
        message: String,
        #[serde(default)]
        opts: Options,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Options {
        retryable: Option<bool>,
        retry_after_ms: Option<u64>,
    }
    let (Input { code, message, opts }, out) = in_and_out(case)?;
    let known = ["INVALID_REQUEST", "UNAVAILABLE", "NOT_PAIRED"];
    let code = known.into_iter().find(|known| *known == code).ok_or("a code that we never send")?;
    compared(out, testing::error_shape(code, &message, opts.retryable, opts.retry_after_ms))
}

fn device_payload(case: &Value) -> Result<Compared, String> {
    let (params, out) = in_and_out::<Value>(case)?;
    compared(out, testing::device_text(&params))
}

fn device_sign(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        seed_hex: String,
        params: Value,
    }
    let (Input { seed_hex, params }, out) = in_and_out(case)?;
    let byte = |at: usize| seed_hex.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    let seed: Option<Vec<u8>> = (0..seed_hex.len()).step_by(2).map(byte).collect();
    compared(out, testing::device_signed(&seed.ok_or("a seed that is not hexadecimal")?, &params)?)
}

fn device_verify(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        public_key: String,
        payload: String,
        signature: String,
    }
    let (Input { public_key, payload, signature }, out) = in_and_out(case)?;
    let ours = testing::device_verified(&public_key, &payload, &signature);
    let ours = ours.map(|(ok, device, key)| json!({ "ok": ok, "deviceId": device, "normalized": key }));
    compared(out, ours.unwrap_or_else(|| json!({ "ok": false })))
}

fn local(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        remote_address: String,
        headers: BTreeMap<String, String>,
    }
    let (Input { remote_address, headers }, out) = in_and_out(case)?;
    let headers: Vec<(String, String)> = headers.into_iter().collect();
    compared(out["local"].clone(), testing::is_local(&remote_address, &headers))
}

fn merge_patch(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        base: Value,
        patch: Value,
    }
    let Input { base, patch } = read(case.get("in").ok_or("missing field `in`")?)?;
    compared(case["out"].clone(), testing::merged(&base, &patch))
}

fn auth(case: &Value) -> Result<Compared, String> {
    let (input, out) = in_and_out::<Value>(case)?;
    let token = input["auth"]["token"].as_str();
    compared(out, testing::token_shown(token, input["connectAuth"]["token"].as_str()))
}

/// Through the file, as every configuration comes: what is wrong with it is told by its message.
fn session_store_key(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        cfg: Value,
        session_key: String,
    }
    let (Input { cfg, session_key }, out) = in_and_out(case)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("config.json5");
    std::fs::write(&path, cfg.to_string()).map_err(|error| error.to_string())?;
    let file = ConfigFile::new(path, folder.path().join("revisions"));
    let ours = match file.load(&Env::from_iter::<[(&str, &str); 0]>([])) {
        Ok(loaded) => testing::session_called(&Settings::new(&loaded), &session_key)?,
        Err(error) => error.problems().first().map(|problem| problem.message.clone()).unwrap_or_default(),
    };
    compared(out, ours)
}
