//! One question to a provider's login server, and its answer as JSON.

use std::time::Duration;

use serde_json::Value;
use tidegate_net::{Call, Client, Headers, Method, NetError, Origin, Timeouts};
use tidegate_secrets::Secret;

use crate::{LoginError, form};

/// For the whole exchange: these answers are small and come at once.
const PATIENCE: Duration = Duration::from_mins(1);
const TIMEOUTS: Timeouts = Timeouts { idle: Duration::from_secs(30) };
const ANSWER_LIMIT: usize = 256 << 10;

/// An answer that is JSON, whatever its status.
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    /// The provider's word for what is wrong, if something is.
    pub fn error(&self) -> Option<String> {
        let error = self.body.get("error")?;
        let word = error.as_str().or_else(|| error.get("code")?.as_str()).unwrap_or("unknown_error");
        Some(harmless(word))
    }

    /// An answer that is a refusal, or lacks what was asked for.
    pub fn refusal(&self) -> LoginError {
        match (self.error(), self.status) {
            (Some(reason), status) => LoginError::Refused { status, reason },
            (None, status @ 200..300) => {
                LoginError::Unexpected { status, reason: "a field is missing".to_owned() }
            }
            (None, status) => LoginError::Refused { status, reason: format!("status {status}") },
        }
    }
}

/// Keeps what an error's name is made of: a server may repeat what it was sent, or write to the terminal.
pub(crate) fn harmless(word: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let word: String = word.chars().filter(plain).take(40).collect();
    if word.is_empty() { "unknown_error".to_owned() } else { word }
}

pub async fn post_form(client: &Client, url: &str, pairs: &[(&str, &str)]) -> Result<Answer, LoginError> {
    let mut headers = Headers::default();
    headers.set("content-type", "application/x-www-form-urlencoded");
    let body = form::encode(pairs).into_bytes();
    ask(client, Origin::Configured, Method::Post, url, headers, body).await
}

pub async fn get(client: &Client, url: &str, token: &Secret) -> Result<Answer, LoginError> {
    let mut headers = Headers::default();
    headers.set_secret("authorization", &Secret::new(format!("Bearer {}", token.expose())));
    ask(client, Origin::Configured, Method::Get, url, headers, Vec::new()).await
}

/// Sends a request and reads its answer. `origin` says who chose the address.
pub async fn ask(
    client: &Client,
    origin: Origin,
    method: Method,
    url: &str,
    mut headers: Headers,
    body: Vec<u8>,
) -> Result<Answer, LoginError> {
    headers.set("accept", "application/json");
    let url = url.to_owned();
    let call = Call { origin, method, url, headers, body, timeouts: TIMEOUTS };
    let exchange = async {
        let reply = client.call(call).await?;
        let status = reply.status();
        Ok::<_, NetError>((status, reply.bytes(ANSWER_LIMIT).await?))
    };
    let (status, bytes) =
        tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| LoginError::TimedOut)??;
    match serde_json::from_slice(&bytes) {
        Ok(body @ Value::Object(_)) => Ok(Answer { status, body }),
        _ => Err(LoginError::Unexpected { status, reason: format!("status {status}, no JSON") }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_its_reason_and_repeats_nothing_else() {
        let refusal = |status, body| Answer { status, body }.refusal();
        let cases = [
            (400, json!({"error": "invalid_grant", "error_description": "tok"}), "invalid_grant"),
            (
                401,
                json!({"error": {"code": "refresh_token_reused", "message": "tok"}}),
                "refresh_token_reused",
            ),
            (400, json!({"error": "\u{1b}[31mred <b>"}), "31mredb"),
            (403, json!({"message": "tok"}), "status 403"),
            (200, json!({"error": 5}), "unknown_error"),
        ];
        for (status, body, expected) in cases {
            let LoginError::Refused { reason, .. } = refusal(status, body) else { panic!("{expected}") };
            assert_eq!(reason, expected);
        }
        assert!(matches!(refusal(200, json!({})), LoginError::Unexpected { .. }));
    }
}
