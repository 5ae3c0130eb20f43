//! The bodies of `wake` and `agent`, and where a webhook's token stands. Pure.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use serde_json::{Value, json};
use tidegate_config::schema::WakeMode;

use super::action::{Action, Work};
use super::words;
use crate::access::bearer;
use crate::openai::Branded;

/// The conversation's place when nothing else is said.
const LAST: &str = "last";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WakePayload {
    text: String,
    mode: WakeMode,
}

impl WakePayload {
    pub(crate) fn read(body: &Value) -> Result<Self, String> {
        let text = words(&body["text"]).ok_or("text required")?;
        Ok(Self { text, mode: mode(&body["mode"]) })
    }

    pub(crate) fn recorded(&self) -> Value {
        json!({ "text": self.text, "mode": self.mode })
    }

    pub(super) fn action(self) -> Action {
        Action::Wake { text: self.text, mode: self.mode }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentPayload {
    message: String,
    name: String,
    mode: WakeMode,
    session: String,
    deliver: bool,
    channel: String,
    to: Option<String>,
    model: Option<String>,
    thinking: Option<String>,
    timeout_seconds: Option<u32>,
}

impl AgentPayload {
    /// `fresh` is a name nobody has; `channels` are those that are there.
    pub(crate) fn read(body: &Value, fresh: &str, channels: &[String]) -> Result<Self, String> {
        let message = words(&body["message"]).ok_or("message required")?;
        let channel = match &body["channel"] {
            Value::Null => LAST.to_owned(),
            given => {
                let known = given
                    .as_str()
                    .map(str::trim)
                    .filter(|name| *name == LAST || channels.iter().any(|channel| channel == name));
                let all = || std::iter::once(LAST).chain(channels.iter().map(String::as_str));
                let told = || format!("channel must be {}", all().collect::<Vec<_>>().join("|"));
                known.ok_or_else(told)?.to_owned()
            }
        };
        let model = words(&body["model"]);
        if body.get("model").is_some() && model.is_none() {
            return Err("model required".to_owned());
        }
        Ok(Self {
            message,
            name: words(&body["name"]).unwrap_or_else(|| "Hook".to_owned()),
            mode: mode(&body["wakeMode"]),
            session: words(&body["sessionKey"]).unwrap_or_else(|| format!("hook:{fresh}")),
            deliver: body["deliver"] != false,
            channel,
            to: words(&body["to"]),
            model,
            thinking: words(&body["thinking"]),
            timeout_seconds: seconds(&body["timeoutSeconds"]),
        })
    }

    pub(crate) fn recorded(&self) -> Value {
        let mut out = json!({
            "message": self.message, "name": self.name, "wakeMode": self.mode, "sessionKey": self.session,
            "deliver": self.deliver, "channel": self.channel, "to": self.to, "model": self.model,
            "thinking": self.thinking, "timeoutSeconds": self.timeout_seconds,
        });
        if let Some(fields) = out.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        out
    }

    pub(super) fn action(self) -> Action {
        Action::Agent(Box::new(Work {
            message: self.message,
            name: Some(self.name),
            mode: self.mode,
            session: Some(self.session),
            deliver: Some(self.deliver),
            trusted: None,
            channel: Some(self.channel),
            to: self.to,
            model: self.model,
            thinking: self.thinking,
            timeout_seconds: self.timeout_seconds,
        }))
    }
}

fn mode(value: &Value) -> WakeMode {
    if value == "next-heartbeat" { WakeMode::NextHeartbeat } else { WakeMode::Now }
}

/// Whole seconds of a positive number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
fn seconds(value: &Value) -> Option<u32> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number > 0.0)?;
    Some(number.floor().clamp(0.0, f64::from(u32::MAX)) as u32).filter(|seconds| *seconds > 0)
}

/// Where a token stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Header(&'a str),
    /// In the address, where logs keep it: it is refused.
    Address,
    Missing,
}

pub(crate) fn token_of<'a>(headers: &'a HeaderMap, query: Option<&str>) -> Token<'a> {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    if let Some(token) =
        authorization.filter(|token| !token.is_empty()).or_else(|| Branded::TOKEN.of(headers))
    {
        return Token::Header(token);
    }
    let in_address = query.unwrap_or_default().split('&').any(|pair| pair.split('=').next() == Some("token"));
    if in_address { Token::Address } else { Token::Missing }
}
