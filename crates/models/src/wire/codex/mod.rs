//! Responses as the Codex server speaks it: the models of a person's ChatGPT plan. Its items and events are those of
//! [`super::responses`]; around them it asks for other fields and takes fewer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use tidegate_net::Method;

use super::responses::{self, ResponsesDecoder, conversation};
use super::{Access, Decoder, Names, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;
use crate::thinking;

/// The server refuses a request without instructions.
const NO_INSTRUCTIONS: &str = "You are a helpful assistant.";

pub(crate) struct CodexResponses;

impl Wire for CodexResponses {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let account = account_id(target.access).ok_or_else(|| {
            Failure::new(FailureKind::Auth, "the login names no ChatGPT account; log in again")
        })?;
        let mut headers = responses::headers(target);
        headers.set("chatgpt-account-id", account);
        headers.set("openai-beta", "responses=experimental");
        headers.set("originator", "tidegate");
        if let Some(key) = responses::cache_key(request) {
            headers.set("session_id", key);
        }
        Ok(Prepared {
            method: Method::Post,
            url: format!("{}/responses", target.model.base_url),
            headers,
            body: Value::Object(body(request, target.model)).to_string().into_bytes(),
        })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(Names::new(&request.tools), |error| {
            let failure = classify(None, &error.to_string());
            // Within a stream nobody says what time it is: only what is left counts.
            limit(error, None).unwrap_or(failure)
        }))
    }

    fn refused(&self, status: u16, body: &str, now_ms: i64) -> Failure {
        let told = serde_json::from_str::<Value>(body).ok();
        let limit = told.as_ref().and_then(|told| limit(told.get("error")?, Some(now_ms)));
        limit.map_or_else(
            || classify(Some(status), body),
            |failure| Failure { status: Some(status), ..failure },
        )
    }
}

fn body(request: &Request, model: &ModelInfo) -> Map<String, Value> {
    let names = Names::new(&request.tools);
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let instructions = if system.is_empty() { NO_INSTRUCTIONS.to_owned() } else { system.join("\n\n") };
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    body.insert("store".into(), json!(false));
    body.insert("stream".into(), json!(true));
    body.insert("instructions".into(), json!(instructions));
    body.insert("input".into(), Value::Array(conversation(request, model, &names)));
    body.insert("text".into(), json!({ "verbosity": "medium" }));
    body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    body.insert("tool_choice".into(), responses::tool_choice(&request.options.tool_choice, &names));
    body.insert("parallel_tool_calls".into(), json!(true));
    if !request.tools.is_empty() {
        body.insert("tools".into(), responses::tools(request, &names, &Value::Null));
    }
    if model.reasoning {
        let level = thinking::clamp(request.options.thinking, model);
        if let Some(effort) = thinking::codex_effort(&model.id, level) {
            body.insert("reasoning".into(), responses::reasoning(effort));
        }
    }
    if let Some(key) = responses::cache_key(request) {
        body.insert("prompt_cache_key".into(), json!(key));
    }
    body
}

/// The account the login is of: as it was noted, or as the token itself says.
fn account_id(access: &Access) -> Option<String> {
    if let Access::Login { account_id: Some(account), .. } = access {
        return Some(account.clone());
    }
    let claims = access.token()?.expose().split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let account = claims.get("https://api.openai.com/auth")?.get("chatgpt_account_id")?.as_str()?;
    (!account.is_empty()).then(|| account.to_owned())
}

/// A plan that is used up, and for how long. `error` is the server's error object.
fn limit(error: &Value, now_ms: Option<i64>) -> Option<Failure> {
    let reason = ["code", "type"].iter().filter_map(|field| error.get(*field)?.as_str());
    let mut reason =
        reason.filter(|reason| *reason == "usage_limit_reached" || *reason == "usage_not_included");
    if reason.next()? == "usage_not_included" {
        return Some(Failure::new(FailureKind::Billing, "the ChatGPT plan does not include this model"));
    }
    let left = seconds_left(error, now_ms);
    let plan = error.get("plan_type").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let plan = if plan.is_empty() { plan } else { format!(" ({plan} plan)") };
    let reset = left.map(|seconds| format!("; it resets in about {} min", seconds.div_ceil(60).max(1)));
    let message = format!("the ChatGPT usage limit is reached{plan}{}", reset.unwrap_or_default());
    let failure = Failure::new(FailureKind::RateLimit, message);
    Some(Failure { retry_after: left.map(Duration::from_secs), ..failure })
}

/// Seconds until the limit is lifted: told as such, or as the moment when it is.
fn seconds_left(error: &Value, now_ms: Option<i64>) -> Option<u64> {
    let told = |field: &str| error.get(field).and_then(Value::as_f64).filter(|seconds| *seconds >= 0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, which is meant"
    )]
    let whole = |seconds: f64| seconds.ceil() as u64;
    told("resets_in_seconds").map(whole).or_else(|| {
        let now = u64::try_from(now_ms?).ok()?.div_euclid(1000);
        told("resets_at").map(|at| whole(at).saturating_sub(now))
    })
}

#[cfg(test)]
mod tests;
