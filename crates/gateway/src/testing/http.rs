//! What recorded cases of other gateways are put to: the pure decisions of this crate, on plain values.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Uri};
use serde_json::{Value, json};
use tidegate_config::schema::Hooks;

use crate::hooks::recorded::Context;
use crate::hooks::{self, AgentPayload, Token, WakePayload, token_of};
use crate::openai;

type Texts = BTreeMap<String, String>;

fn headers(given: &Texts) -> HeaderMap {
    let pairs = given.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    pairs.collect::<Vec<(axum::http::HeaderName, axum::http::HeaderValue)>>().into_iter().collect()
}

/// What is asked by a list of chat messages.
pub fn chat_prompt(messages: &[Value]) -> Value {
    openai::recorded::chat_prompt(messages)
}

/// What is asked by the input of a response.
pub fn response_prompt(input: &Value) -> Value {
    openai::recorded::response_prompt(input)
}

/// Agent, token and conversation of a request.
pub fn openai_routing(given: &Texts, model: Option<&str>, user: Option<&str>) -> Value {
    let headers = headers(given);
    let (agent, key) = openai::recorded::routing(&headers, model, user);
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    json!({ "agentId": agent, "bearer": authorization.and_then(crate::access::bearer), "sessionKey": key })
}

/// A template filled by a webhook.
pub fn hook_template(template: &str, payload: Value, headers: Texts, path: String, query: Texts) -> String {
    hooks::recorded::render(template, &Context { payload, headers, path, query })
}

/// What the mappings make of a webhook.
pub fn hook_mapping(said: &Hooks, payload: Value, headers: Texts, path: String, query: Texts) -> Value {
    hooks::recorded::map(said, &Context { payload, headers, path, query })
}

/// What a section means.
pub fn hook_config(said: &Hooks) -> Value {
    hooks::recorded::config(said)
}

/// The body of `agent`.
pub fn hook_agent(body: &Value, fresh: &str, channels: &[String]) -> Value {
    told(AgentPayload::read(body, fresh, channels).map(|payload| payload.recorded()))
}

/// The body of `wake`.
pub fn hook_wake(body: &Value) -> Value {
    told(WakePayload::read(body).map(|payload| payload.recorded()))
}

fn told(read: Result<Value, String>) -> Value {
    match read {
        Ok(value) => json!({ "ok": true, "value": value }),
        Err(error) => json!({ "ok": false, "error": error }),
    }
}

/// Where the token of a webhook stands.
pub fn hook_token(given: &Texts, address: &str) -> Value {
    let query = address.parse::<Uri>().ok().and_then(|uri| uri.query().map(str::to_owned));
    match token_of(&headers(given), query.as_deref()) {
        Token::Header(token) => json!({ "token": token, "fromQuery": false }),
        Token::Address => json!({ "fromQuery": true }),
        Token::Missing => json!({ "fromQuery": false }),
    }
}
